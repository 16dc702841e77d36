"""A server with unary methods, streams, health and reflection, as its clients see it."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from engine_calls import Caller, name_peer
from grpc_servers import BROKEN, LONG, REJECTED, STREAM, UNARY, EngineServer, serve_engine
from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SECONDS, Connection, grpc_message
from in_process import ANY_PORT, RecordingGate, run_runner
from tensor_reshape.rules.errors import Reason, UnauthenticatedError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.gates import Gate, Gates
from tensor_reshape.server.calls.sources import Sources
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import Event
from tensor_reshape.server.grpc.health import MAX_WATCHES_PER_CONNECTION, Health
from tensor_reshape.server.grpc.reflection import Reflection
from tensor_reshape.server.grpc.servers import Server
from tensor_reshape.server.grpc.services import MAX_SILENT, Service, build_builtin_service
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.method_tables import MethodTable
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.status import REQUEST_ID_KEY

HEALTH_LIST = "/grpc.health.v1.Health/List"
METHODS = (HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, REFLECTION)
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED = "0", "3", "5", "8"
UNIMPLEMENTED, INTERNAL, UNAVAILABLE = "12", "13", "14"
SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")
MAX_BYTES = 4096
NOT_YOU = UnauthenticatedError.of(Reason.UNAUTHENTICATED, "not you")
GRACE_SECONDS = 15.0  # after this time, the calls would be cancelled
LIST_SERVICES = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()


def ask(connection: Connection, path: str, *messages: bytes) -> tuple[str, str, bytes]:
    """Makes a call; returns its status code, its message, and the bytes of its responses."""
    stream = connection.open(path)
    connection.send_data(stream, b"".join(map(grpc_message, messages)), end=True)
    return *connection.await_end(stream), connection.bodies.get(stream, b"")


@pytest.mark.parametrize("message", [b"short", LONG])
def test_server_returns_unary_responses(served: EngineServer, connection: Connection, message: bytes):
    assert ask(connection, UNARY, message) == (OK, "", grpc_message(message.upper()))
    served.check_nothing_is_held()


def test_server_sends_stream_responses_in_order(served: EngineServer, connection: Connection):
    messages = [b"a", LONG, b"", b"b" * 5000, b"c"]
    answers = b"".join(grpc_message(message.upper()) for message in messages if message)
    assert ask(connection, STREAM, *messages) == (OK, "", answers)
    served.check_nothing_is_held()


@pytest.mark.parametrize("path", [UNARY, STREAM])
@pytest.mark.parametrize(
    ("message", "status", "text"),
    [(REJECTED, INVALID_ARGUMENT, "this is rejected"), (BROKEN, INTERNAL, "internal error")],
)
def test_server_sends_error_reasons_and_request_ids(
    served: EngineServer, path: str, message: bytes, status: str, text: str, caplog: pytest.LogCaptureFixture
):
    with Connection(served.address) as connection, caplog.at_level(logging.INFO):
        stream = connection.open(path, headers=[(REQUEST_ID_KEY, "mine")])
        connection.send_data(stream, grpc_message(message), end=True)
        assert connection.await_end(stream).status == status
        assert text in connection.await_end(stream).message.replace("%20", " ")
        assert connection.headers[stream][REQUEST_ID_KEY] == "mine"
    bugs = ["bug"] if status == INTERNAL else []
    ends = ["failed" if bugs else "rejected"]
    assert sorted(one.message for one in caplog.records if one.name.startswith("tensor_reshape")) == sorted(bugs + ends)
    served.check_nothing_is_held()


def test_server_rejects_unary_calls_without_a_message(served: EngineServer, connection: Connection):
    assert ask(connection, UNARY)[0] == INVALID_ARGUMENT
    served.check_nothing_is_held()


def test_server_reports_calls_to_unknown_methods():
    names: list[str] = []
    with serve_engine(on_unknown=names.append) as served, Connection(served.address) as connection:
        assert ask(connection, "/no/Such", b"")[:2] == (UNIMPLEMENTED, "Method not found!")
    assert names == ["/no/Such"]


@contextmanager
def serve_reflection(gate: Gate) -> Iterator[Connection]:
    """Serves reflection with a gate, and connects through a proxy."""
    config = Config(trusted_proxy=("127.0.0.1",))
    service = build_builtin_service(config, MethodTable((), Reflection([]).build_methods()), Gates([gate]))
    with serve_engine(config, others=[service]) as served, Connection(served.address) as connection:
        yield connection


def test_admission_check_is_called_once_for_a_reflection_stream():
    gate = RecordingGate()
    with serve_reflection(gate) as connection:
        stream = connection.open(REFLECTION, headers=[("x-forwarded-for", "192.0.2.7")])
        connection.send_data(stream, grpc_message(LIST_SERVICES) * 3, end=True)
        assert connection.await_end(stream).is_ok
        assert gate.left.acquire(timeout=SECONDS)
    assert [info.address for info in gate.infos] == ["ipv4:192.0.2.7"]
    assert not gate.left.acquire(blocking=False)


@pytest.mark.parametrize(
    ("gate", "message", "reason"),
    [
        (RecordingGate(NOT_YOU), LIST_SERVICES, Reason.UNAUTHENTICATED),
        (RecordingGate(), b"\xff", Reason.MESSAGE_MALFORMED),
    ],
    ids=["gate", "garbage"],
)
def test_rejected_server_reflection_call_is_logged(
    gate: Gate, message: bytes, reason: Reason, caplog: pytest.LogCaptureFixture
):
    with serve_reflection(gate) as connection, caplog.at_level(logging.INFO):
        ask(connection, REFLECTION, message)
    assert [(one.message, vars(one)["reason"]) for one in caplog.records if hasattr(one, "reason")] == [
        ("rejected", reason)
    ]


def test_cancel_calls_ends_running_calls(served: EngineServer, connection: Connection):
    stream = connection.open(STREAM)
    connection.send_data(stream, grpc_message(b"a"))
    served.watcher.await_event(Event.ARRIVE)
    served.server.stop()
    served.server.cancel_calls()
    assert not connection.await_end(stream).is_ok
    assert served.server.wait(SECONDS)
    served.check_nothing_is_held()


@contextmanager
def serve_health() -> Iterator[tuple[Service, str]]:
    service = build_builtin_service(Config(max_message_bytes=MAX_HEADER_BYTES), Health().build_methods({}))
    server = Server([service], Sources(), [])
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0', None)}"
    server.start()
    try:
        yield service, address
    finally:
        server.stop()
        server.cancel_calls()
        assert server.wait(SECONDS)


def test_open_health_watches_reserve_no_memory():
    name = health_pb2.HealthCheckRequest(service="A" * (MAX_HEADER_BYTES - 10)).SerializeToString()
    with serve_health() as (service, address), Connection(address) as connection:
        for _ in range(MAX_WATCHES_PER_CONNECTION):
            stream = connection.open(HEALTH_WATCH)
            connection.send_data(stream, grpc_message(name))
            assert connection.await_(partial(connection.bodies.__contains__, stream))
        assert service.engine.used_bytes == 0
        assert connection.call(HEALTH_CHECK, b"").is_ok


def test_cancelled_health_watch_releases_its_call():
    with serve_health() as (service, address), grpc.insecure_channel(address) as channel:
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(HEALTH_WATCH)
        for _ in range(MAX_WATCHES_PER_CONNECTION * 2):
            news = watch(b"", timeout=SECONDS)
            next(news)
            news.cancel()
        # On one connection, so that the Check is processed after the cancellations before it.
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
        pause = threading.Event()
        while not service.engine.is_idle:
            assert check(b"", timeout=SECONDS)
            pause.wait(0.01)


@pytest.fixture
def runner() -> Iterator[Runner]:
    with run_runner() as runner:
        yield runner


@pytest.fixture
def whole(runner: Runner) -> Iterator[Connection]:
    """A connection to a server with all its services."""
    with Connection(runner.addresses[0]) as connection:
        yield connection


def watch(connection: Connection) -> int:
    stream = connection.open(HEALTH_WATCH)
    connection.send_data(stream, grpc_message(b""))
    assert connection.await_(lambda: connection.bodies.get(stream) == SERVING)
    return stream


@pytest.mark.parametrize("garbage", [b"\xff\xff", b"\x0a\x05a", b"\x0a\x01\xff"], ids=["wire", "short", "no text"])
@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_builtin_services_reject_malformed_messages(whole: Connection, path: str, garbage: bytes):
    assert ask(whole, path, garbage)[::2] == (INVALID_ARGUMENT, b"")


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, *build_probes(bool)])
def test_builtin_service_call_without_a_message_is_rejected(whole: Connection, path: str):
    assert whole.await_end(whole.open(path, end=True)).status == INVALID_ARGUMENT


def test_reflection_stream_without_messages_succeeds(whole: Connection):
    assert whole.await_end(whole.open(REFLECTION, end=True)).is_ok


@pytest.mark.parametrize("path", METHODS)
def test_builtin_service_message_above_the_header_limit_is_rejected(whole: Connection, path: str):
    message = b"\x0a\x81\x80\x04" + bytes(MAX_HEADER_BYTES + 1)
    assert ask(whole, path, message)[::2] == (RESOURCE_EXHAUSTED, b"")


@pytest.mark.parametrize("path", METHODS)
def test_builtin_service_message_above_the_size_limit_is_logged(path: str, caplog: pytest.LogCaptureFixture):
    config = Config(listen=(ANY_PORT,), max_message_bytes=MAX_BYTES, drain_seconds=0)
    with caplog.at_level(logging.INFO), run_runner(config) as runner, Connection(runner.addresses[0]) as connection:
        assert ask(connection, path, bytes(MAX_BYTES + 1))[0] == RESOURCE_EXHAUSTED
        # The core has sent the outcome to the client. This call is processed after it.
        assert connection.call(HEALTH_CHECK, b"").is_ok
    logged = [(one.message, vars(one).get("reason")) for one in caplog.records if hasattr(one, "method")]
    assert logged == [("rejected", Reason.MESSAGE_TOO_LARGE)]


@pytest.mark.parametrize(
    ("service", "status", "answer"), [("", OK, SERVING), (SERVICE, OK, SERVING), ("another", NOT_FOUND, b"")]
)
def test_health_check_knows_the_server_and_the_reshape_service(
    whole: Connection, service: str, status: str, answer: bytes
):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert ask(whole, HEALTH_CHECK, request)[::2] == (status, answer)


def test_each_reflection_message_has_a_response(whole: Connection):
    stream = whole.open(REFLECTION)

    def has_answers(count: int) -> bool:
        return whole.bodies.get(stream, b"").count(SERVICE.encode()) == count

    for count in range(1, 4):
        whole.send_data(stream, grpc_message(LIST_SERVICES))
        assert whole.await_(partial(has_answers, count))
    whole.send_data(stream, b"", end=True)
    assert whole.await_end(stream).is_ok


def test_simultaneous_reflection_messages_are_processed_one_at_a_time(whole: Connection):
    stream = whole.open(REFLECTION)
    whole.send_data(stream, grpc_message(LIST_SERVICES) * 3, end=True)
    assert whole.await_end(stream).is_ok
    assert whole.bodies[stream].count(SERVICE.encode()) == 3


def test_health_calls_waiting_for_a_message_hold_no_thread(whole: Connection):
    assert whole.call(HEALTH_CHECK, b"").is_ok
    before = threading.active_count()
    for _ in range(MAX_SILENT // 2):
        whole.open(HEALTH_CHECK)
        whole.open(REFLECTION)
        watch(whole)
    assert threading.active_count() <= before  # threads of servers of other tests may still be ending


def test_stopping_server_notifies_health_watches_and_ends_waiting_calls(whole: Connection, runner: Runner):
    watched, silent, reflected = watch(whole), whole.open(HEALTH_CHECK), whole.open(REFLECTION)
    assert whole.ping()
    runner.stop()
    assert whole.await_end(watched).is_ok
    assert whole.bodies[watched] == SERVING + NOT_SERVING
    assert [whole.await_end(stream).status for stream in (silent, reflected)] == [UNAVAILABLE] * 2


class HoldingGate:
    """Blocks the thread that receives calls, at the first call that reaches the gate."""

    def __init__(self) -> None:
        self.held, self.released = threading.Event(), threading.Event()

    def admit(self, info: CallInfo) -> None:
        del info
        self.held.set()
        assert self.released.wait(SECONDS)

    def leave(self, info: CallInfo) -> None:
        pass


def test_builtin_service_calls_started_during_shutdown_end_immediately():
    gate, config = HoldingGate(), Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=GRACE_SECONDS)
    with (
        run_runner(config, gates=[gate]) as runner,
        Connection(runner.addresses[0]) as connection,
        ThreadPoolExecutor() as pool,
    ):
        reflected = connection.open(REFLECTION)
        assert gate.held.wait(SECONDS)
        silent, watched = connection.open(HEALTH_WATCH), connection.open(HEALTH_WATCH)
        connection.send_data(watched, grpc_message(b""))
        assert connection.ping()
        stop = pool.submit(runner.stop)
        assert connection.await_(lambda: bool(connection.goaway))
        gate.released.set()
        ends = [connection.await_end(stream) for stream in (reflected, silent, watched)]
        stop.result(SECONDS)
    assert ends[:2] == [(UNAVAILABLE, "the server stops")] * 2
    # The stop may reach this call before or after its message.
    assert ends[2] in {(UNAVAILABLE, "the server stops"), (OK, "")}


def test_excess_calls_without_a_message_are_aborted_per_connection(whole: Connection):
    streams = [whole.open(HEALTH_CHECK) for _ in range(2 * MAX_SILENT)]
    assert whole.call(HEALTH_CHECK, b"").is_ok
    assert whole.await_end(streams[0]).status == RESOURCE_EXHAUSTED


def count_reads(service: Service) -> int:
    """Returns how many calls of different addresses may wait for their messages at the same time."""
    callers = [Caller(service.engine, name_peer(number)) for number in range(40)]
    reads = sum(caller.reads for caller in callers)
    for caller in callers:
        caller.leave()
    return reads


@pytest.mark.parametrize("max_bytes", [4096, 65536])
def test_builtin_service_has_memory_for_the_messages_of_silent_calls(max_bytes: int):
    config, methods = Config(max_message_bytes=max_bytes), MethodTable((), ())
    assert count_reads(build_builtin_service(config, methods)) == 16
    assert count_reads(build_builtin_service(config, methods, max_silent=4)) == 4


def test_builtin_service_has_slots_for_all_health_watches():
    assert build_builtin_service(Config(max_calls=5), MethodTable((), ())).engine.max_calls == 8192
