"""Calls of health and reflection respond correctly in every situation, and occupy no thread."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, SECONDS, Connection, End, grpc_message
from in_process import ANY_PORT, run_runner
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.config import Config
from tensor_reshape.server.grpc.services import MAX_SILENT
from tensor_reshape.server.oip.methods import build_probes
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import SERVICE

HEALTH_LIST = "/grpc.health.v1.Health/List"
METHODS = (HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, REFLECTION)
OK, INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, UNAVAILABLE = "0", "3", "5", "8", "14"
SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")
MAX_BYTES = 4096
GRACE_SECONDS = 15.0  # after this time, the calls would be cancelled
LIST_SERVICES = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()


@pytest.fixture
def runner() -> Iterator[Runner]:
    with run_runner() as runner:
        yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    with Connection(runner.addresses[0]) as connection:
        yield connection


def ask(connection: Connection, path: str, message: bytes) -> tuple[End, bytes]:
    """Makes a call with one message, and returns its outcome and the earlier responses."""
    stream = connection.open(path)
    connection.send_data(stream, grpc_message(message), end=True)
    return connection.await_end(stream), connection.bodies.get(stream, b"")


def watch(connection: Connection) -> int:
    stream = connection.open(HEALTH_WATCH)
    connection.send_data(stream, grpc_message(b""))
    assert connection.await_(lambda: connection.bodies.get(stream) == SERVING)
    return stream


@pytest.mark.parametrize("garbage", [b"\xff\xff", b"\x0a\x05a", b"\x0a\x01\xff"], ids=["wire", "short", "no text"])
@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_builtin_services_reject_malformed_messages(connection: Connection, path: str, garbage: bytes):
    end, body = ask(connection, path, garbage)
    assert (end.status, body) == (INVALID_ARGUMENT, b"")


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_LIST, HEALTH_WATCH, *build_probes(bool)])
def test_builtin_service_call_without_a_message_is_rejected(connection: Connection, path: str):
    assert connection.await_end(connection.open(path, end=True)).status == INVALID_ARGUMENT


def test_reflection_stream_without_messages_succeeds(connection: Connection):
    assert connection.await_end(connection.open(REFLECTION, end=True)).is_ok


@pytest.mark.parametrize("path", METHODS)
def test_builtin_service_message_above_the_header_limit_is_rejected(connection: Connection, path: str):
    end, body = ask(connection, path, b"\x0a\x81\x80\x04" + bytes(MAX_HEADER_BYTES + 1))
    assert (end.status, body) == (RESOURCE_EXHAUSTED, b"")


@pytest.mark.parametrize("path", METHODS)
def test_builtin_service_message_above_the_size_limit_is_logged(path: str, caplog: pytest.LogCaptureFixture):
    config = Config(listen=(ANY_PORT,), max_message_bytes=MAX_BYTES, drain_seconds=0)
    with caplog.at_level(logging.INFO), run_runner(config) as runner, Connection(runner.addresses[0]) as connection:
        end, _ = ask(connection, path, bytes(MAX_BYTES + 1))
        assert connection.call(
            HEALTH_CHECK, b""
        ).is_ok  # the core has sent the outcome to the client; this call is processed after it
    assert end.status == RESOURCE_EXHAUSTED
    logged = [(one.message, vars(one).get("reason")) for one in caplog.records if hasattr(one, "method")]
    assert logged == [("rejected", Reason.MESSAGE_TOO_LARGE)]


@pytest.mark.parametrize(
    ("service", "status", "answer"), [("", OK, SERVING), (SERVICE, OK, SERVING), ("another", NOT_FOUND, b"")]
)
def test_health_check_knows_the_server_and_the_reshape_service(
    connection: Connection, service: str, status: str, answer: bytes
):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    end, body = ask(connection, HEALTH_CHECK, request)
    assert (end.status, body) == (status, answer)


def test_each_reflection_message_has_a_response(connection: Connection):
    stream = connection.open(REFLECTION)

    def has_answers(count: int) -> bool:
        return connection.bodies.get(stream, b"").count(SERVICE.encode()) == count

    for count in range(1, 4):
        connection.send_data(stream, grpc_message(LIST_SERVICES))
        assert connection.await_(partial(has_answers, count))
    connection.send_data(stream, b"", end=True)
    assert connection.await_end(stream).is_ok


def test_simultaneous_reflection_messages_are_processed_one_at_a_time(connection: Connection):
    stream = connection.open(REFLECTION)
    connection.send_data(stream, grpc_message(LIST_SERVICES) * 3, end=True)
    assert connection.await_end(stream).is_ok
    assert connection.bodies[stream].count(SERVICE.encode()) == 3


def test_health_calls_waiting_for_a_message_hold_no_thread(connection: Connection):
    assert connection.call(HEALTH_CHECK, b"").is_ok
    before = threading.active_count()
    for _ in range(MAX_SILENT // 2):
        connection.open(HEALTH_CHECK)
        connection.open(REFLECTION)
        watch(connection)
    assert threading.active_count() <= before  # threads of servers of other tests may still be ending


def test_stopping_server_notifies_health_watches_and_ends_waiting_calls(connection: Connection, runner: Runner):
    watched, silent, reflected = watch(connection), connection.open(HEALTH_CHECK), connection.open(REFLECTION)
    assert connection.ping()
    runner.stop()
    assert connection.await_end(watched).is_ok
    assert connection.bodies[watched] == SERVING + NOT_SERVING
    assert [connection.await_end(stream).status for stream in (silent, reflected)] == [UNAVAILABLE] * 2


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


def test_excess_calls_without_a_message_are_aborted_per_connection(connection: Connection):
    streams = [connection.open(HEALTH_CHECK) for _ in range(2 * MAX_SILENT)]
    assert connection.call(HEALTH_CHECK, b"").is_ok
    assert connection.await_end(streams[0]).status == RESOURCE_EXHAUSTED
