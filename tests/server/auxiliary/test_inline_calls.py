"""Health and reflection without threads."""

import logging
import threading
from collections.abc import Iterator

import pytest

from http2 import HEALTH_CHECK, HEALTH_WATCH, REFLECTION, Connection, grpc_message
from in_process import ANY_PORT, run_runner
from tensor_reshape.server.auxiliary import inline_calls
from tensor_reshape.server.auxiliary.bounded_calls import MAX_SILENT
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

SERVING, NOT_SERVING = grpc_message(b"\x08\x01"), grpc_message(b"\x08\x02")


@pytest.fixture
def runner() -> Iterator[Runner]:
    with run_runner(Config(listen=(ANY_PORT,), drain_seconds=0, grace_seconds=0)) as runner:
        yield runner


@pytest.fixture
def connection(runner: Runner) -> Iterator[Connection]:
    with Connection(runner.addresses[0]) as connection:
        yield connection


def watch(connection: Connection) -> int:
    stream = connection.open(HEALTH_WATCH)
    connection.send_data(stream, grpc_message(b""))
    assert connection.await_(lambda: connection.bodies.get(stream) == SERVING)
    return stream


def test_calls_that_wait_for_a_message_hold_no_thread(connection: Connection):
    assert connection.call(HEALTH_CHECK, b"").is_ok
    before = threading.active_count()
    for _ in range(MAX_SILENT // 2):
        connection.open(HEALTH_CHECK)
        connection.open(REFLECTION)
        watch(connection)
    assert threading.active_count() <= before  # those of servers of other tests may still be ending


def test_who_watches_is_told_the_news_and_that_there_will_be_no_more(connection: Connection, runner: Runner):
    stream = watch(connection)
    runner._health.stop_serving()
    assert connection.await_(lambda: connection.bodies[stream] == SERVING + NOT_SERVING)
    runner._health.end_watches()
    assert connection.await_end(stream).is_ok


def test_one_call_too_many_has_the_oldest_told_why_it_goes(connection: Connection):
    streams = [connection.open(HEALTH_CHECK) for _ in range(MAX_SILENT + 1)]
    assert connection.await_end(streams[0]).status == "8"


@pytest.mark.parametrize("path", [HEALTH_CHECK, HEALTH_WATCH, REFLECTION])
def test_a_bug_ends_its_call_and_nothing_else(
    connection: Connection, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def fail(*_: object) -> None:
        message = "a secret"
        raise RuntimeError(message)

    monkeypatch.setattr(inline_calls, "answer", fail)
    with caplog.at_level(logging.ERROR):
        end = connection.call(path, b"")
    assert (end.status in {"1", "RST"}, "secret" in end.message) == (True, False)
    assert [record.message for record in caplog.records] == ["bug"]
    monkeypatch.undo()
    assert connection.call(HEALTH_CHECK, b"").is_ok
