"""The thread that receives calls: what goes past grpcio, what does not, and how a server stops."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pytest
from grpc import _server
from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types

from http2 import HEALTH_CHECK, HEALTH_WATCH, SERVICE_PATH, Connection, grpc_message
from in_process import ANY_PORT, BlockedBackend, run_runner, run_stock
from tensor_reshape.client import Client
from tensor_reshape.server.calls import serving_loops
from tensor_reshape.server.calls.fair_locks import FairLock
from tensor_reshape.server.calls.fair_queues import FairQueue
from tensor_reshape.server.calls.header_lists import HeaderBound
from tensor_reshape.server.calls.heartbeats import Heartbeat
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.methods import LIGHT_BYTES, ReshapeService
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.methods import INFER_SHAPE

SECONDS = 60.0
RESHAPE = f"{SERVICE_PATH}Reshape"
HEADERS = HeaderBound(1 << 14, ResetBuckets(64.0))


def configure(serving: str = "inline", **settings: float) -> Config:
    quick = {"drain_seconds": 0, "grace_seconds": 0, **settings}
    return Config(listen=(ANY_PORT,), serving=serving, **quick)  # type: ignore[arg-type]


def check_calls(address: str, *ways: str) -> None:
    with Client(address) as client:
        for way in ways or ("inline", "stream"):
            assert client.reshape(np.arange(6), [2, 3], special_zero=False, transfer=way).shape == (2, 3)  # type: ignore[call-overload]


def ask(runner: Runner) -> None:
    """Makes one unary call, and no other: the SDK watches the health besides."""
    with Connection(runner.addresses[0]) as connection:
        assert connection.call(INFER_SHAPE.path, b"\x08\x01\x10\x00\x1a\x02\x12\x00\x22\x00").is_ok


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The states that grpcio makes of calls."""
    states: list[object] = []
    make = _server._RPCState

    def note() -> object:
        states.append(None)
        return make()  # type: ignore[no-untyped-call]

    monkeypatch.setattr(_server, "_RPCState", note)
    return states


def test_grpcio_makes_no_state_of_a_unary_call(made: list[object]):
    with run_runner(configure()) as runner:
        made.clear()  # of what asked whether this grpcio is supported
        ask(runner)
        assert not made
        check_calls(runner.addresses[0], "stream")
        assert made


def test_threads_leave_every_call_to_grpcio(made: list[object]):
    with run_runner(configure("threads")) as runner:
        made.clear()
        ask(runner)
        assert made


def test_another_server_of_the_process_is_served_by_grpcio(made: list[object]):
    with run_runner(configure()) as runner, run_stock({"Reshape": lambda *_: b"stock"}) as address:
        check_calls(runner.addresses[0])
        made.clear()
        with grpc.insecure_channel(address) as channel:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RESHAPE)
            assert method(b"") == b"stock"
        assert made


class Witness(grpc.ServerInterceptor):
    """An interceptor that sees calls and wraps nothing."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def intercept_service(self, continuation, handler_call_details):  # noqa: ANN001
        self.methods.append(handler_call_details.method)
        return continuation(handler_call_details)


@pytest.fixture
def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    """An interceptor that every server has, as an instrumentation adds one."""
    witness, make = Witness(), grpc.server

    def make_server(threads: ThreadPoolExecutor, **how: object) -> grpc.Server:
        return make(threads, interceptors=[witness], **how)  # type: ignore[arg-type]

    monkeypatch.setattr(grpc, "server", make_server)
    return witness


def test_an_interceptor_sees_every_call_which_a_thread_then_serves(witness: Witness, caplog: pytest.LogCaptureFixture):
    with run_runner(configure()) as runner:
        check_calls(runner.addresses[0])
        with Connection(runner.addresses[0]) as connection:
            assert connection.call(HEALTH_CHECK, b"").is_ok
    assert {RESHAPE, f"{SERVICE_PATH}StreamReshape", HEALTH_CHECK} <= set(witness.methods)
    assert [record.levelname for record in caplog.records if "interceptors" in record.message] == ["WARNING"]


def test_direct_calls_are_heartbeats():
    heartbeat = Heartbeat()
    runner = Runner(configure(), heartbeat=heartbeat)
    runner.start()
    try:
        ask(runner)
        assert heartbeat.count == 1
    finally:
        runner.stop()


def build_long_request() -> bytes:
    data = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_U8, dims=[2 * LIGHT_BYTES], data=bytes(2 * LIGHT_BYTES))
    shape = tensor_pb2.Tensor(data_type=tensor_pb2.DATA_TYPE_I8, dims=[1], data=b"\xff")
    return reshape_pb2.ReshapeRequest(shape=shape, special_zero=False, data=data).SerializeToString()


Begun = tuple[Runner, BlockedBackend, "grpc.Future[bytes]"]


@pytest.fixture
def begin() -> Iterator[Callable[[float], Begun]]:
    """Has a thread of a server, whose grace is given, work on a call."""
    backend = BlockedBackend()
    with ExitStack() as stack:

        def begin(grace_seconds: float) -> Begun:
            config = configure(grace_seconds=grace_seconds)
            runner = Runner(config, ReshapeService(config.limits, backend=backend, make_turns=FairLock))
            runner.start()
            channel = stack.enter_context(grpc.insecure_channel(runner.addresses[0]))
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RESHAPE)
            future: grpc.Future[bytes] = method.future(build_long_request())
            assert backend.entered.wait(SECONDS)
            return runner, backend, future

        yield begin
        backend.released.set()


def is_answered(future: "grpc.Future[bytes]") -> bool:
    """Awaits the end of a call, and returns whether that was an answer, also if it was lost on its way.

    A connection that the server closes when its last answer is written is reset where a frame of the client, a window
    update, is not read yet: then the client's system may drop what had come.
    """
    error = future.exception(SECONDS)
    if isinstance(error, grpc.RpcError):
        return "reset by peer" in str(error)
    return len(future.result(SECONDS)) > LIGHT_BYTES


def test_a_server_that_stops_waits_for_a_direct_call(begin: Callable[[float], Begun], monkeypatch: pytest.MonkeyPatch):
    runner, backend, future = begin(SECONDS)
    stop, begins = runner._server.stop, threading.Event()

    def stop_noted(grace: float | None) -> object:
        event = stop(grace)
        begins.set()
        return event

    monkeypatch.setattr(runner._server, "stop", stop_noted)
    stopping = threading.Thread(target=runner.stop)
    stopping.start()
    try:
        assert begins.wait(SECONDS)
        backend.released.set()
        assert is_answered(future)
    finally:
        stopping.join(SECONDS)
    assert not stopping.is_alive()


def test_a_direct_call_is_cancelled_after_the_grace(begin: Callable[[float], Begun]):
    runner, _, future = begin(0)
    runner.stop()
    assert isinstance(future.exception(SECONDS), grpc.RpcError)
    assert not runner._server.wait_for_termination(0)


def test_the_loop_ends_when_nobody_has_the_server_any_more():
    before = set(threading.enumerate())
    server = grpc.server(ThreadPoolExecutor(1))
    serving_loops.start(server, {"/a.Service/Method": fail_to_open}, lambda: None, HEADERS)
    (thread,) = set(threading.enumerate()) - before
    del server
    gc.collect()
    thread.join(SECONDS)
    assert not thread.is_alive()


def fail_to_open(call: object) -> None:
    raise AssertionError(call)


ANY = "/a.Service/Method"
CROWD = 20
IDLE = 16


class HeldLoop(grpc.GenericRpcHandler):
    """A server whose loop is held while it begins its first call, directly or by grpcio's functions.

    Attributes:
        begun: the connections of direct calls that have been begun, or the methods of others, in this order.
        held: set when the first one is about to be begun.
        released: set to let the loop go on.
    """

    def __init__(self, *, direct: bool) -> None:
        self.begun: list[str] = []
        self.held, self.released = threading.Event(), threading.Event()
        self.server = grpc.server(ThreadPoolExecutor(1), handlers=[self])
        self.address = f"127.0.0.1:{self.server.add_insecure_port(ANY_PORT)}"
        opened = dict.fromkeys((f"{ANY}A", f"{ANY}B"), self.open) if direct else {}
        serving_loops.start(self.server, opened, lambda: None, HEADERS)

    def open(self, event: Any) -> None:  # noqa: ANN401 - grpcio's, without types
        self.begin(event.call_details.method.decode())
        event.call.cancel()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        self.begin(handler_call_details.method)

    def begin(self, name: str) -> None:
        self.begun.append(name.removeprefix(ANY))
        self.held.set()
        assert self.released.wait(SECONDS)

    def fill(self, crowd: Connection, other: Connection) -> None:
        """Has one connection begin many calls, and then another one."""
        crowd.open(f"{ANY}A", end=True)
        assert self.held.wait(SECONDS)
        for _ in range(CROWD):
            crowd.open(f"{ANY}A", end=True)
        assert crowd.ping()
        other.open(f"{ANY}B", end=True)
        assert other.ping()
        assert other.ping()  # the core has told of what it has read before it reads on


@pytest.fixture(params=[True, False], ids=["direct", "grpcio's"])
def held_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldLoop]:
    monkeypatch.setattr(serving_loops, "QUEUE_AFTER", 0)
    held = HeldLoop(direct=request.param)
    yield held
    held.released.set()
    held.server.stop(None).wait(SECONDS)


def test_the_calls_of_one_connection_do_not_keep_those_of_others_waiting(held_loop: HeldLoop):
    with Connection(held_loop.address) as crowd, Connection(held_loop.address) as other:
        held_loop.fill(crowd, other)
        held_loop.released.set()
        assert other.await_end(1).status != "TIMEOUT"
        assert crowd.await_end(2 * CROWD + 1).status != "TIMEOUT"
    assert sorted(held_loop.begun) == ["A"] * (CROWD + 1) + ["B"]
    assert held_loop.begun.index("B") < CROWD // 2


def test_calls_that_are_refused_do_not_keep_others_waiting(held_loop: HeldLoop, monkeypatch: pytest.MonkeyPatch):
    refuse = HeaderBound.refuse

    def note(bound: HeaderBound, event: Any) -> bool:  # noqa: ANN401 - grpcio's, without types
        is_refused = refuse(bound, event)
        if is_refused:
            held_loop.begun.append("refused")
        return is_refused

    monkeypatch.setattr(HeaderBound, "refuse", note)
    with Connection(held_loop.address) as polite, Connection(held_loop.address, acknowledges=False) as early:
        held_loop.fill(polite, polite)
        for _ in range(CROWD):
            early.open(f"{ANY}A", end=True, headers=[("x", "y")] * (HEADERS._max_bytes // 34 + 1))
        assert early.ping()
        assert early.ping()
        held_loop.released.set()
        assert early.await_end(2 * CROWD - 1).status == "8"
    order = "".join(name[0] for name in held_loop.begun)
    assert "rA" in order[: order.rindex("r")]


def test_calls_that_idle_do_not_have_others_queued(monkeypatch: pytest.MonkeyPatch):
    queued: list[object] = []
    push = FairQueue.push

    def note(queue: FairQueue[object], peer: str, item: object) -> None:
        queued.append(None)  # not what it is of: a call lives as long as something refers to it
        push(queue, peer, item)

    with run_runner(configure()) as runner, Connection(runner.addresses[0]) as connection:
        for _ in range(IDLE):
            connection.send_data(connection.open(HEALTH_WATCH), grpc_message(b""), end=True)
        assert connection.await_(lambda: len(connection.bodies) == IDLE)
        monkeypatch.setattr(FairQueue, "push", note)
        for _ in range(CROWD):
            assert connection.call(HEALTH_CHECK, b"").is_ok
    assert len(queued) < CROWD // 2


def test_a_server_that_stops_begins_the_calls_that_it_has_taken_up_one_by_one(
    held_loop: HeldLoop, monkeypatch: pytest.MonkeyPatch
):
    process = serving_loops._ServingLoop._process
    begun_by_event: list[int] = []
    ends: SimpleQueue[threading.Event] = SimpleQueue()

    def note(loop: serving_loops._ServingLoop, event: object) -> bool:
        if not begun_by_event:  # here, between two events: the loop that is held may hold grpcio's lock
            ends.put(held_loop.server.stop(SECONDS))
        before = len(held_loop.begun)
        goes_on = process(loop, event)
        begun_by_event.append(len(held_loop.begun) - before)
        return goes_on

    with Connection(held_loop.address) as crowd, Connection(held_loop.address) as other:
        held_loop.fill(crowd, other)
        monkeypatch.setattr(serving_loops._ServingLoop, "_process", note)
        held_loop.released.set()
        assert ends.get(timeout=SECONDS).wait(SECONDS)
    assert len(held_loop.begun) == CROWD + 2
    assert max(begun_by_event) == 1


def test_the_installed_grpcio_is_supported():
    assert serving_loops.is_supported()


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (_server, "_process_event_and_continue"),
        (_server, "_request_call"),
        (_server, "_stop_serving"),
        (_server, "_ServerState"),
        (_server, "_ServerStage"),
        (_server, "_REQUEST_CALL_TAG"),
        (cygrpc, "ReceiveCloseOnServerOperation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_grpcio_without_one_of_the_parts_is_not_supported(place: object, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(place, name)
    assert not serving_loops.is_supported()


@pytest.mark.parametrize("name", ["_process_event_and_continue", "_request_call", "_ServerState"])
def test_a_grpcio_with_a_part_of_another_form_is_not_supported(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_server, name, lambda other: other)
    assert not serving_loops.is_supported()


def test_a_grpcio_whose_loop_is_not_known_serves_with_threads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(serving_loops, "is_supported", lambda: False)
    with run_runner(configure("auto")) as runner:
        check_calls(runner.addresses[0])
    assert f"grpcio {grpc.__version__} cannot serve inline" in [
        record.message for record in caplog.records if record.levelno == logging.WARNING
    ]
    with pytest.raises(ConfigError, match="inline"):
        Runner(configure("inline"))
