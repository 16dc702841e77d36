"""Calls with grpcio's public API, and the conversion of its errors."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import _channel

from both_clients import interrupt_call
from in_process import WAIT_SECONDS, StreamBehavior, run_stock
from server_processes import ServerProcess
from tensor_reshape.client import (
    CallTimeoutError,
    Client,
    InvalidRequestError,
    LimitError,
    Reason,
    ResponseError,
    ServiceError,
    TensorReshapeError,
    UnavailableError,
)
from tensor_reshape.client.grpc_core import GrpcApi
from tensor_reshape.client.transports import StreamExchange, Transport, check_answer
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import encode_accept
from tensor_reshape.wire.status import encode_rejection
from tensor_reshape.wire.tensors import TensorView

PATH = f"/{SERVICE}/InferShape"
SECONDS = 60.0
NOBODY = "127.0.0.1:1"
GRPC_APIS: tuple[GrpcApi, ...] = ("auto", "public")
SIX = np.arange(6)
LARGE = np.zeros(8 << 20, np.uint8)  # larger than any flow control window, so unread data stays unsent
ACCEPT = encode_accept(TensorView(DataType.U8, LARGE.shape, None, memoryview(b"")))


class Held:
    """Accepts a tensor and stops reading. `entered`: a tensor has begun. `left`: its caller has cancelled."""

    def __init__(self) -> None:
        self.entered, self.left = threading.Event(), threading.Event()

    def __call__(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(
            self.left.set
        )  # added first, because grpcio does not call the method again after the end of the call
        next(requests)
        yield ACCEPT
        self.entered.set()
        self.left.wait(WAIT_SECONDS)


@pytest.fixture
def calls() -> Iterator[Transport]:
    """Calls on a channel whose server returns the request."""
    with (
        run_stock({"InferShape": lambda request, _: request}) as address,
        closing(Transport(grpc.insecure_channel(address))) as transport,
    ):
        yield transport


@pytest.fixture
def unanswered() -> Iterator[Transport]:
    """Calls on a channel without a server."""
    with closing(Transport(grpc.insecure_channel(NOBODY))) as transport:
        yield transport


def end_within(status: grpc.StatusCode, details: str, *metadata: tuple[str, str | bytes]) -> StreamBehavior:
    """Accepts a tensor, reads one chunk, and ends the call."""

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        next(requests)
        yield ACCEPT
        next(requests)
        context.set_trailing_metadata(metadata)
        if status is not grpc.StatusCode.OK:
            context.abort(status, details)

    return behave


def reject_within(error: InvalidRequestError | LimitError) -> StreamBehavior:
    status = encode_rejection(error)
    return end_within(grpc.StatusCode[status.code], status.details, *status.trailing_metadata)


def reshape(client: Client, **fields: Any) -> object:
    return client.reshape(LARGE, [-1], special_zero=False, transfer="stream", **{"timeout": WAIT_SECONDS, **fields})


def test_finish_returns_the_response_of_a_started_call(calls: Transport):
    assert calls.send(PATH, b"a question", SECONDS, ()) == b"a question"
    started = [calls.start(PATH, request, SECONDS, ()) for request in (b"one", b"two")]
    assert [call.finish() for call in started] == [b"one", b"two"]


def test_signal_during_the_start_of_a_call_loses_no_response(calls: Transport, monkeypatch: pytest.MonkeyPatch):
    # The worst time for a signal: the call has begun, and no thread waits for its events yet.
    run, here = _channel._run_channel_spin_thread, threading.current_thread()
    assert here is threading.main_thread()

    def run_or_interrupt(state: _channel._ChannelCallState) -> None:
        if threading.current_thread() is here:
            raise KeyboardInterrupt
        run(state)

    monkeypatch.setattr(_channel, "_run_channel_spin_thread", run_or_interrupt)
    assert calls.start(PATH, b"a question", SECONDS, ()).finish() == b"a question"


def test_call_starts_in_the_contextvars_context_of_its_caller(unanswered: Transport, monkeypatch: pytest.MonkeyPatch):
    name, seen = ContextVar[str]("name"), list[str]()
    name.set("the caller's")
    method = SimpleNamespace(future=lambda *_: seen.append(name.get()))  # like an interceptor of a tracer
    monkeypatch.setattr(unanswered, "_find_unary", lambda _: method)
    unanswered.start(PATH, b"", SECONDS, ())
    assert seen == ["the caller's"]


def test_grpcio_error_becomes_an_sdk_error(unanswered: Transport):
    with pytest.raises(UnavailableError) as caught:
        unanswered.send(PATH, b"", SECONDS, ())
    assert caught.value.__context__ is None  # a context would keep the call alive


def test_missing_response_raises_response_error_unlike_an_empty_one():
    assert check_answer(b"") == b""
    with pytest.raises(ResponseError, match="without a response"):
        check_answer(None)


def test_call_raises_service_error_if_no_thread_can_start(unanswered: Transport, monkeypatch: pytest.MonkeyPatch):
    def reject(*_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr("tensor_reshape.client.transports.start_new_thread", reject)
    with pytest.raises(ServiceError, match="could not start, because the system cannot start another thread") as caught:
        unanswered.start(PATH, b"", SECONDS, ())
    assert caught.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED


ENDS: dict[str, tuple[StreamBehavior, type[Exception], str]] = {
    "a rejection": (
        reject_within(InvalidRequestError.of(Reason.NOT_DIVISIBLE, "6 by 4", "shape")),
        InvalidRequestError,
        "6 by 4",
    ),
    "a limit": (reject_within(LimitError.of(Reason.OUTPUT_TOO_LARGE, "no")), LimitError, "no"),
    "a bug": (end_within(grpc.StatusCode.INTERNAL, "of the server"), TensorReshapeError, "of the server"),
    "details in no alphabet": (end_within(grpc.StatusCode.ABORTED, "ünï\n\N{SNOWMAN}"), ServiceError, "\N{SNOWMAN}"),
    "an end that comes too early": (end_within(grpc.StatusCode.OK, ""), ResponseError, "ended the stream after 0 of"),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_raises_the_server_status_while_still_sending(name: str, grpc_api: GrpcApi):
    behave, kind, text = ENDS[name]
    with (
        run_stock({}, streams={STREAM_RESHAPE.name: behave}) as address,
        Client(address, chunk_bytes=1 << 16, grpc_api=grpc_api) as client,
        pytest.raises(kind) as caught,
    ):
        reshape(client)
    assert text in str(caught.value)


@pytest.mark.usefixtures("impatience")
@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_without_a_server_raises_a_connection_error(grpc_api: GrpcApi):
    with Client(NOBODY, grpc_api=grpc_api) as client, pytest.raises(UnavailableError):
        reshape(client)


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_to_an_unreading_server_ends_at_its_deadline(grpc_api: GrpcApi):
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, Client(address, grpc_api=grpc_api) as client:
        while (
            not held.entered.is_set()
        ):  # on a busy machine, the deadline may expire before the call reaches the server
            with pytest.raises(CallTimeoutError):
                reshape(client, timeout=0.5)
        assert held.left.wait(WAIT_SECONDS)


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_is_cancelled_by_an_exception_of_its_caller(grpc_api: GrpcApi):
    held = Held()

    def fail(*_: int) -> None:
        raise LookupError

    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, Client(address, grpc_api=grpc_api) as client:
        with pytest.raises(LookupError):
            reshape(client, progress=fail)
        assert held.left.wait(WAIT_SECONDS)


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_is_cancelled_by_closing_the_client(grpc_api: GrpcApi):
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address, ThreadPoolExecutor(1) as pool:
        client = Client(address, grpc_api=grpc_api)
        call = pool.submit(reshape, client)
        assert held.entered.wait(WAIT_SECONDS)
        client.close()
        error = call.exception(WAIT_SECONDS)
        assert held.left.wait(WAIT_SECONDS)
    assert getattr(error, "code", None) is grpc.StatusCode.CANCELLED


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_stream_is_cancelled_by_ctrl_c(grpc_api: GrpcApi):
    held = Held()
    with run_stock({}, streams={STREAM_RESHAPE.name: held}) as address:
        call = "client.reshape(np.zeros(8 << 20, np.uint8), [-1], special_zero=False, transfer='stream')"
        assert interrupt_call(address, grpc_api, call, held.entered) == "interrupted\n"
        assert held.left.wait(WAIT_SECONDS)


INTERRUPTED_OFTEN = """
import random, signal, sys
import numpy as np
from tensor_reshape.client import Client

array, out = np.ones(4 << 20, np.uint8), np.empty(4 << 20, np.uint8)
signal.signal(signal.SIGALRM, signal.default_int_handler)
with Client(sys.argv[1]) as client:
    client.reshape(array, [-1], special_zero=False)
    for seconds in (random.uniform(0.0001, 0.003) for _ in range(100)):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            while True:
                client.reshape(array, [-1], special_zero=False, out=out)
        except KeyboardInterrupt:
            out[:] = 0
        client.submit(client.infer_shape, [6], [2, 3], special_zero=False).result(60)
        assert not out.any()
print("works")
"""


def test_other_threads_can_call_after_ctrl_c_in_a_stream(server: ServerProcess):
    command = [sys.executable, "-c", INTERRUPTED_OFTEN, server.address]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout == "works\n"


@pytest.mark.parametrize("grpc_api", GRPC_APIS)
def test_progress_is_reported_on_the_thread_of_the_caller(server: ServerProcess, grpc_api: GrpcApi):
    def list_threads(client: Client) -> set[threading.Thread]:
        threads = {threading.current_thread()}
        client.reshape(
            SIX,
            [2, 3],
            special_zero=False,
            transfer="stream",
            progress=lambda *_: threads.add(threading.current_thread()),
        )
        return threads

    with Client(server.address, grpc_api=grpc_api) as client, ThreadPoolExecutor(1) as pool:
        assert [len(list_threads(client)), len(pool.submit(list_threads, client).result())] == [1, 1]


def test_closed_transport_rejects_every_kind_of_call(unanswered: Transport):
    unanswered.close()
    with pytest.raises(ValueError, match="closed"):
        unanswered.send(PATH, b"", SECONDS, ())
    with pytest.raises(ValueError, match="closed"):
        unanswered.start(PATH, b"", SECONDS, ())
    with pytest.raises(ValueError, match="closed"):
        unanswered.exchange(StreamExchange(iter([b""]), print, runs_foreign_code=False), SECONDS, ())


def test_stream_threads_end_with_the_stream(server: ServerProcess):
    during: set[threading.Thread] = set()
    before = set(threading.enumerate())
    with Client(server.address, chunk_bytes=10, grpc_api="public") as client:
        client.reshape(
            np.arange(300, dtype=np.uint8),
            [-1],
            special_zero=False,
            transfer="stream",
            progress=lambda *_: during.update(threading.enumerate()),
        )
        # `threading` keeps a placeholder of each thread that it has not started, also after the end of the thread
        started = [thread for thread in during - before if not thread.name.startswith("Dummy-")]
        for thread in started:
            thread.join(WAIT_SECONDS)
    assert started
    assert not any(thread.is_alive() for thread in started)


def test_threads_of_a_rejected_stream_end_with_the_stream():
    def reject(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        yield from ()
        next(requests)  # the request was sent, and the sending thread waits for a response
        context.abort(grpc.StatusCode.INTERNAL, "rejected")

    before = set(threading.enumerate())
    with run_stock({}, streams={STREAM_RESHAPE.name: reject}) as address, Client(address, grpc_api="public") as client:
        with pytest.raises(TensorReshapeError, match="rejected"):
            reshape(client)
        started = [thread for thread in {*threading.enumerate()} - before if not thread.name.startswith("Dummy-")]
    for thread in started:
        thread.join(WAIT_SECONDS)
    assert not any(thread.is_alive() for thread in started)
