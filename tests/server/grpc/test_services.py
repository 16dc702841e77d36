"""A server with unary methods, streams and watches, as its clients see it."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from grpc_servers import BROKEN, LONG, REJECTED, STREAM, UNARY, EngineServer, serve_engine
from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
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
from tensor_reshape.server.grpc.services import Service, build_builtin_service
from tensor_reshape.server.service.method_tables import MethodTable
from tensor_reshape.wire.status import REQUEST_ID_KEY

OK, INVALID_ARGUMENT, UNIMPLEMENTED, INTERNAL = "0", "3", "12", "13"
LIST_SERVICES = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
SECONDS = 60.0


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


class Book:
    """A gate that records the addresses of admitted calls, and counts the ended ones."""

    def __init__(self) -> None:
        self.addresses: list[str] = []
        self.over = SimpleQueue[CallInfo]()

    def admit(self, info: CallInfo) -> None:
        self.addresses.append(info.address)

    def leave(self, info: CallInfo) -> None:
        self.over.put(info)


class Closed:
    """A gate that rejects every call."""

    def admit(self, info: CallInfo) -> None:
        del info
        raise UnauthenticatedError.of(Reason.UNAUTHENTICATED, "not you")

    def leave(self, info: CallInfo) -> None:
        raise AssertionError(info)


@contextmanager
def serve_reflection(gate: Gate) -> Iterator[Connection]:
    """Serves reflection with a gate, and connects through a proxy."""
    config = Config(trusted_proxy=("127.0.0.1",))
    service = build_builtin_service(config, MethodTable((), Reflection([]).build_methods()), Gates([gate]))
    with serve_engine(config, others=[service]) as served, Connection(served.address) as connection:
        yield connection


def test_admission_check_is_called_once_for_a_reflection_stream():
    book = Book()
    with serve_reflection(book) as connection:
        stream = connection.open(REFLECTION, headers=[("x-forwarded-for", "192.0.2.7")])
        connection.send_data(stream, grpc_message(LIST_SERVICES) * 3, end=True)
        assert connection.await_end(stream).is_ok
        book.over.get(timeout=SECONDS)
    assert (book.addresses, book.over.empty()) == (["ipv4:192.0.2.7"], True)


@pytest.mark.parametrize(
    ("gate", "message", "reason"),
    [(Closed(), LIST_SERVICES, Reason.UNAUTHENTICATED), (Book(), b"\xff", Reason.MESSAGE_MALFORMED)],
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


def test_server_answers_health_checks_and_watches():
    health = Health()
    server = Server([build_builtin_service(Config(), health.build_methods({}))], Sources(), [])
    address = f"127.0.0.1:{server.add_port('127.0.0.1:0', None)}"
    server.start()
    with grpc.insecure_channel(address) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
        watch: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream("/grpc.health.v1.Health/Watch")
        assert check(b"", timeout=SECONDS) == b"\x08\x01"
        news = watch(b"", timeout=SECONDS)
        assert next(news) == b"\x08\x01"
        health.stop_serving()
        assert next(news) == b"\x08\x02"
        health.end_watches()
        assert list(news) == []
    server.stop()
    assert server.wait(SECONDS)
