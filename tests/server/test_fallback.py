"""The fallback server, in addition to `test_transports`."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from engine_servers import UNARY, serve_engine
from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
from in_process import ANY_PORT, run_runner
from plain_requests import INFER
from raw_streams import SIX, chunk, open_stream
from raw_streams import begin as begin_tensor
from tensor_reshape.server import transports
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.engine import Engine
from tensor_reshape.server.engine.stall_timeouts import reject_busy
from tensor_reshape.server.fallback import FallbackServer
from tensor_reshape.server.runner import Runner
from tensor_reshape.wire.methods import INFER_SHAPE, SERVICE

RESOURCE_EXHAUSTED, INVALID_ARGUMENT, NOT_FOUND = "8", "3", "5"
SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(transports, "find_obstacle", lambda: "another grpcio")
    with run_runner(Config(listen=(ANY_PORT,), drain_seconds=0)) as runner:
        yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    with Connection(runner.addresses[0]) as connection:
        yield connection


def test_fallback_server_returns_responses(runner: Runner, connection: Connection):
    assert connection.call(INFER_SHAPE.path, INFER).is_ok
    with grpc.insecure_channel(runner.addresses[0]) as channel, open_stream(channel, begin_tensor()) as stream:
        assert stream.accept() == (6,)
        stream.send(chunk(0, SIX))
        assert stream.receive(6) == SIX
        stream.finish()


def test_fallback_server_health_watch_receives_changes_and_end(runner: Runner, connection: Connection):
    stream = connection.open(HEALTH_WATCH)
    connection.send_data(stream, grpc_message(b""), end=True)
    assert connection.await_(lambda: connection.bodies.get(stream) == SERVING)
    runner.stop()
    assert connection.await_end(stream).is_ok
    assert connection.bodies[stream] == SERVING + NOT_SERVING


def test_fallback_server_answers_each_reflection_message(connection: Connection):
    request = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()
    stream = connection.open(REFLECTION)
    connection.send_data(stream, grpc_message(request) * 2, end=True)
    assert connection.await_end(stream).is_ok
    assert connection.bodies[stream].count(SERVICE.encode()) == 2


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_fallback_server_rejects_an_undecodable_message(connection: Connection, path: str):
    assert connection.call(path, b"\xff").status == INVALID_ARGUMENT


def test_fallback_server_health_of_an_unknown_service_is_not_found(connection: Connection):
    assert connection.call(HEALTH_CHECK, b"\x0a\x07another").status == NOT_FOUND


def test_fallback_server_rejects_calls_if_no_memory_is_free(monkeypatch: pytest.MonkeyPatch):
    def reject(*_: Any) -> None:
        message = "no room"
        raise reject_busy(message)

    with serve_engine(FallbackServer) as served, Connection(served.address) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(Engine, "enter", reject)
            assert connection.call(UNARY, b"message") == (RESOURCE_EXHAUSTED, "no room")
        assert connection.call(UNARY, b"message").is_ok
