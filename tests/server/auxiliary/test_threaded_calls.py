"""Health and reflection where each call holds a thread: with a grpcio that the server does not know."""

from collections.abc import Iterator

import pytest

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
from in_process import ANY_PORT, run_runner
from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT
from tensor_reshape.server.auxiliary.threaded_calls import SPARE_THREADS
from tensor_reshape.server.calls import core_calls
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")
CANCELLED = {"1", "RST"}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(core_calls, "is_supported", lambda: False)
    config = Config(listen=(ANY_PORT,), serving="threads", drain_seconds=0, grace_seconds=0)
    with run_runner(config) as runner:
        yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    with Connection(runner.addresses[0]) as connection:
        yield connection


def list_ended(connection: Connection, streams: list[int]) -> list[int]:
    heads, resets = connection.headers, connection.resets
    return [stream for stream in streams if stream in resets or "grpc-status" in heads.get(stream, {})]


@pytest.mark.parametrize("path", [HEALTH_CHECK, REFLECTION])
def test_more_calls_than_threads_drive_each_other_out_and_one_with_a_message_is_answered(
    connection: Connection, path: str
):
    streams = [connection.open(path) for _ in range(MAX_SILENT + SPARE_THREADS + 2)]
    # Those that took a slot first; which these are is up to the threads.
    assert connection.await_(lambda: bool(list_ended(connection, streams)))
    assert {connection.await_end(one).status for one in list_ended(connection, streams)} <= CANCELLED
    stream = connection.open(path)
    connection.send_data(stream, grpc_message(b"\x3a\x00" if path == REFLECTION else b""))
    assert connection.await_(lambda: bool(connection.bodies.get(stream)))


def test_who_watches_is_told_the_news_and_that_there_will_be_no_more(connection: Connection, runner: Runner):
    stream = connection.open(HEALTH_WATCH)
    connection.send_data(stream, grpc_message(b""))
    assert connection.await_(lambda: connection.bodies.get(stream) == SERVING)
    runner._health.stop_serving()
    assert connection.await_(lambda: connection.bodies[stream] == SERVING + NOT_SERVING)
    runner._health.end_watches()
    assert connection.await_end(stream).is_ok
