"""Streams that their caller drives: whatever ends one, the caller sees what a stock stream would have shown."""

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar

import grpc
import numpy as np
import pytest
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from in_process import WAIT_SECONDS, StreamBehavior, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    CallTimeoutError,
    Client,
    InvalidRequestError,
    LimitError,
    Reason,
    ResponseError,
    TensorReshapeError,
    UnavailableError,
    direct_streams,
    stock_streams,
)
from tensor_reshape.client.core_channels import ChannelLock, get_core
from tensor_reshape.client.direct_calls import Way
from tensor_reshape.client.direct_streams import find_exchange, is_supported
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.methods import STREAM_RESHAPE
from tensor_reshape.wire.status import encode_refusal
from tensor_reshape.wire.streams import encode_accept
from tensor_reshape.wire.tensors import TensorView

WAYS: tuple[Way, ...] = ("auto", "stock")
NOBODY = "127.0.0.1:1"
HANG_SECONDS = 60  # of a program whose calls are many, on a machine that may be busy
LARGE = np.zeros(8 << 20, np.uint8)  # more than any window, so that what is not read is not sent
ACCEPT = encode_accept(TensorView(DataType.U8, LARGE.shape, None, memoryview(b"")))
INTERRUPTED = """
import gc, os, random, signal, sys, threading
import numpy as np
from tensor_reshape.client import Client
from tensor_reshape.client.direct_streams import _Stream

def interrupt(*_):
    global is_interrupted
    is_interrupted = True
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)  # whoever runs the tests in the background has it ignored
array = np.ones(4 << 20, np.uint8)

def call_until_interrupted():  # no loop within `try`: CPython 3.13 lets an exception between two rounds pass it
    while not is_interrupted:  # what is raised within a finalizer arrives nowhere
        client.reshape(array, [-1], special_zero=False, transfer="stream")

with Client(sys.argv[1], chunk_bytes=1 << 16) as client:
    for _ in range(15):
        is_interrupted = False
        try:
            threading.Timer(random.uniform(0.01, 0.1), os.kill, (os.getpid(), signal.SIGINT)).start()
            call_until_interrupted()
        except KeyboardInterrupt:
            pass
    output = client.reshape(array, [-1], special_zero=False, transfer="stream")
    gc.collect()
    print(np.array_equal(output, array), sum(isinstance(kept, _Stream) for kept in gc.get_objects()))
"""
INTERRUPTED_WAIT = """
import signal, sys
import numpy as np
from tensor_reshape.client import Client

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as above
with Client(sys.argv[1]) as client:
    try:
        client.reshape(np.zeros(8 << 20, np.uint8), [-1], special_zero=False, transfer="stream")
    except KeyboardInterrupt:
        print("interrupted")
"""


class Held:
    """Accepts and reads no more; `entered`: a tensor has begun, `left`: its caller has gone."""

    def __init__(self) -> None:
        self.entered, self.left = threading.Event(), threading.Event()

    def __call__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(self.left.set)  # at once: of a call that is over grpcio asks no more
        next(requests)
        yield ACCEPT
        self.entered.set()
        self.left.wait(WAIT_SECONDS)


def end_within(status: grpc.StatusCode, details: str, *metadata: tuple[str, str | bytes]) -> StreamBehavior:
    """Accepts, takes one chunk, and ends."""

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield ACCEPT
        next(requests)
        context.set_trailing_metadata(metadata)
        if status is not grpc.StatusCode.OK:
            context.abort(status, details)

    return behave


def refuse_within(error: InvalidRequestError | LimitError) -> StreamBehavior:
    status = encode_refusal(error)
    return end_within(status.code, status.details, *status.trailing_metadata)


def reshape(client: Client, **fields: Any) -> object:
    return client.reshape(LARGE, [-1], special_zero=False, transfer="stream", **{"timeout": WAIT_SECONDS, **fields})


def find_end(client: Client) -> tuple[object, ...]:
    with pytest.raises(TensorReshapeError) as caught:
        reshape(client)
    error = caught.value
    return (type(error), str(error), *(getattr(error, name, None) for name in ("code", "reason", "retry_seconds")))


def test_the_installed_grpcio_is_supported():
    assert is_supported()


def test_a_grpcio_of_another_form_is_not_supported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(direct_streams._SIGNATURES, "operate", ["self", "operations"])
    assert not is_supported.__wrapped__()


def test_streams_are_driven_directly_where_nothing_speaks_against_it():
    class Interceptor(grpc.StreamStreamClientInterceptor):
        def intercept_stream_stream(  # type: ignore[override] # whatever comes next is passed on
            self, continuation: Callable[..., object], client_call_details: object, request_iterator: object
        ) -> object:
            return continuation(client_call_details, request_iterator)

    with grpc.insecure_channel(NOBODY) as channel:
        intercepted = grpc.intercept_channel(channel, Interceptor())
        ways = (find_exchange(channel, "auto"), find_exchange(channel, "stock"), find_exchange(intercepted, "auto"))
        functions = [way.func for way in ways if isinstance(way, partial)]
        assert functions == [direct_streams.exchange, stock_streams.exchange, stock_streams.exchange]


def test_a_stream_needs_no_thread_but_its_caller_s(server: ServerProcess):
    callers = []

    def look(*_: int) -> None:
        callers.append((threading.current_thread(), set(threading.enumerate())))

    before = set(threading.enumerate())
    with Client(server.address) as client:
        reshape(client, progress=look)
    assert callers
    # Fewer there may be: those that other tests have left end.
    assert all(caller is threading.current_thread() and threads <= before for caller, threads in callers)


ENDS: dict[str, tuple[StreamBehavior, type[Exception]]] = {
    "a refusal": (refuse_within(InvalidRequestError.of(Reason.NOT_DIVISIBLE, "6 by 4", "shape")), InvalidRequestError),
    "a limit": (refuse_within(LimitError.of(Reason.OUTPUT_TOO_LARGE, "no")), LimitError),
    "a bug": (end_within(grpc.StatusCode.INTERNAL, "of the server"), TensorReshapeError),
    "details in no alphabet": (end_within(grpc.StatusCode.ABORTED, "ünï\n\N{SNOWMAN}"), TensorReshapeError),
    "an end that comes too early": (end_within(grpc.StatusCode.OK, ""), ResponseError),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_in_the_middle_of_sending_is_the_same_in_both_ways(name: str):
    behave, kind = ENDS[name]
    ends = []
    with run_stock({}, streams={STREAM_RESHAPE.name: behave}) as address:
        for way in WAYS:
            with Client(address, calls=way, chunk_bytes=1 << 16) as client:
                ends.append(find_end(client))
    assert ends[0] == ends[1]
    assert issubclass(ends[0][0], kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_does_not_know_the_method_ends_the_call(way: Way):
    with run_stock({}) as address, Client(address, calls=way) as client, pytest.raises(TensorReshapeError) as caught:
        reshape(client)
    assert getattr(caught.value, "code", None) is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("way", WAYS)
def test_no_server_at_all_is_a_connection_error(way: Way):
    with Client(NOBODY, calls=way) as client, pytest.raises(UnavailableError):
        reshape(client)


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_does_not_read_is_left_at_the_deadline(way: Way):
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, Client(address, calls=way) as client:
        while not held.entered.is_set():  # on a busy machine the deadline may come before the server hears of a call
            with pytest.raises(CallTimeoutError):
                reshape(client, timeout=0.5)
        assert held.left.wait(WAIT_SECONDS)


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_of_the_caller_s_own_ends_the_call(way: Way):
    held = Held()

    def fail(*_: int) -> None:
        raise LookupError

    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, Client(address, calls=way) as client:
        with pytest.raises(LookupError):
            reshape(client, progress=fail)
        assert held.left.wait(WAIT_SECONDS)


@pytest.mark.parametrize("way", WAYS)
def test_closing_the_client_ends_its_streams(way: Way):
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, ThreadPoolExecutor(1) as pool:
        client = Client(address, calls=way)
        call = pool.submit(reshape, client)
        assert held.entered.wait(WAIT_SECONDS)
        client.close()
        error = call.exception(WAIT_SECONDS)
        assert held.left.wait(WAIT_SECONDS)
    assert getattr(error, "code", None) is grpc.StatusCode.CANCELLED


@pytest.mark.parametrize("way", WAYS)
def test_a_channel_that_is_closed_takes_no_stream(way: Way):
    with Client(NOBODY, calls=way) as client:
        client._calls.channel.close()  # as by another thread, just when the call begins
        with pytest.raises(ValueError, match="closed"):
            reshape(client)


def test_a_stream_that_is_over_leaves_nothing_behind(server: ServerProcess):
    with Client(server.address) as client:
        reshape(client)
        gc.collect()
        assert not [kept for kept in gc.get_objects() if isinstance(kept, direct_streams._Stream)]


def test_ctrl_c_ends_a_stream_that_waits():
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address:
        command = [sys.executable, "-c", INTERRUPTED_WAIT, address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert held.entered.wait(WAIT_SECONDS)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=WAIT_SECONDS)[0] == "interrupted\n"
        assert held.left.wait(WAIT_SECONDS)


def test_a_client_goes_on_after_many_interruptions_and_keeps_no_array(server: ServerProcess):
    command = [sys.executable, "-c", INTERRUPTED, server.address]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=HANG_SECONDS, check=True)
    assert done.stdout == "True 0\n"


def test_an_interruption_that_leaves_grpcio_s_lock_held_stops_no_other_thread(server: ServerProcess):
    def interrupt(*_: int) -> None:
        # As it is where a signal comes just before grpcio releases it.
        ChannelLock(get_core(client._calls.channel))._condition.acquire()
        raise KeyboardInterrupt

    with Client(server.address) as client, ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            reshape(client, progress=interrupt)
        assert pool.submit(reshape, client).result(WAIT_SECONDS) is not None


class TwiceInterrupted(direct_streams._Stream):
    """A stream with one signal as the core lets go of its call, and another as the core is asked whether it has."""

    reads_of_freed_memory: ClassVar[list[object]] = []

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._real, self._call, self._is_gone = self._call, self, False

    def next_event(self) -> object:
        if self._is_gone:
            self.reads_of_freed_memory.append(self)
            raise KeyboardInterrupt
        event = self._real.next_event()
        self._is_gone = self._due == 1
        if self._is_gone:
            raise KeyboardInterrupt
        return event

    def operate(self, operations: object, tag: object) -> object:
        if self._is_gone:
            raise KeyboardInterrupt
        return self._real.operate(operations, tag)

    def cancel(self, code: object, details: str) -> None:
        self._real.cancel(code, details)


def test_a_second_interruption_does_not_have_events_of_a_call_awaited_that_is_gone(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(direct_streams, "_Stream", TwiceInterrupted)
    with Client(server.address) as client, pytest.raises(KeyboardInterrupt):
        reshape(client)
    assert TwiceInterrupted.reads_of_freed_memory == []


def test_a_stream_that_a_signal_handler_makes_keeps_the_lock_that_its_thread_has():
    with Client(NOBODY) as client:
        lock = ChannelLock(get_core(client._calls.channel))
        client._endpoint._metadata = (("A Key", "x"),)
        with lock._condition:  # as where the signal came within grpcio
            # A ValueError at the oldest grpcio, which looks at metadata before it begins a call.
            with pytest.raises((TensorReshapeError, ValueError), match="metadata"):
                reshape(client)
            assert lock.is_held()


def test_where_a_caller_may_fork_in_the_middle_of_a_stream_streams_are_stock(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cygrpc, "_GRPC_ENABLE_FORK_SUPPORT", True)
    assert not is_supported.__wrapped__()
