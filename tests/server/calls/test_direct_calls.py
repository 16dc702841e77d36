"""Unary calls without grpcio's state: that a caller who goes is noticed, whatever the call waits for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from http2 import SERVICE_PATH, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import ANY_PORT, hurry_stop
from tensor_reshape.server.calls.inline import UnaryCall
from tensor_reshape.server.calls.lifecycle import Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner

SECONDS = 60.0
RESHAPE = f"{SERVICE_PATH}Reshape"
CANCEL = bytes(3) + b"\x08"
MIB = 1024 * 1024
NARROW = {"max_message_bytes": MIB, "memory_budget_bytes": 8 * MIB}
"""Room for a connection to receive two messages at once: its third call waits."""


class Watcher:
    """An observer that awaits events of calls, in any order."""

    def __init__(self) -> None:
        self.news = threading.Condition()
        self.seen: list[tuple[Event, State]] = []
        self.endings: list[str] = []

    def observe(self, record: CallRecord, event: Event) -> None:
        with self.news:
            self.seen.append((event, record.state))
            if record.state is State.DONE and record.ending:
                self.endings.append(record.ending.code)
            self.news.notify_all()

    def await_event(self, event: Event, count: int = 1) -> None:
        with self.news:
            assert self.news.wait_for(lambda: [one for one, _ in self.seen].count(event) >= count, SECONDS), self.seen

    def await_end(self) -> str:
        with self.news:
            assert self.news.wait_for(lambda: self.endings, SECONDS), self.seen
            return self.endings[-1]


@contextmanager
def serve(**settings: int) -> Iterator[tuple[Runner, Watcher]]:
    watcher = Watcher()
    config = Config(listen=(ANY_PORT,), serving="inline", drain_seconds=0, grace_seconds=0, **settings)  # type: ignore[arg-type]
    runner = Runner(config, observers=[watcher])
    runner.start()
    try:
        yield runner, watcher
    finally:
        hurry_stop(runner)


@pytest.mark.parametrize("sent", [0, 3, 50], ids=["nothing", "half a prefix", "half a message"])
def test_a_caller_that_cancels_while_its_message_is_awaited_is_noticed(sent: int):
    with serve() as (runner, watcher), Connection(runner.addresses[0]) as connection:
        stream = connection.open(RESHAPE)
        if sent:
            connection.send_data(stream, grpc_message(bytes(100))[:sent])
        watcher.await_event(Event.READ)
        connection.send(frame(Frame.RST_STREAM, 0, stream, CANCEL))
        watcher.await_end()
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


def test_a_deadline_that_passes_while_the_message_is_awaited_ends_the_call():
    with serve() as (runner, watcher), Connection(runner.addresses[0]) as connection:
        connection.open(RESHAPE, headers=[("grpc-timeout", "200m")])
        watcher.await_end()
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


def test_a_connection_that_is_closed_takes_its_calls_along():
    with serve() as (runner, watcher):
        with Connection(runner.addresses[0]) as connection:
            connection.open(RESHAPE)
            watcher.await_event(Event.READ)
        watcher.await_end()
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


@contextmanager
def fill() -> Iterator[tuple[Runner, Watcher, Connection, list[int]]]:
    """Opens three calls, the last of which waits for room."""
    with serve(**NARROW) as (runner, watcher), Connection(runner.addresses[0]) as connection:
        streams = [connection.open(RESHAPE) for _ in range(3)]
        watcher.await_event(Event.ASK, 3)
        assert [event for event, _ in watcher.seen].count(Event.READ) == 2
        yield runner, watcher, connection, streams


def test_a_caller_that_cancels_while_it_waits_for_room_is_noticed():
    with fill() as (_, watcher, connection, streams):
        connection.send(frame(Frame.RST_STREAM, 0, streams[-1], CANCEL))
        assert watcher.await_end() == "CANCELLED"
        assert watcher.seen[-1] == (Event.OVER, State.DONE)


def test_a_call_that_has_waited_for_room_is_answered():
    with fill() as (runner, watcher, connection, streams):
        for stream in streams[:2]:
            connection.send(frame(Frame.RST_STREAM, 0, stream, CANCEL))
        watcher.await_event(Event.READ, 3)
        connection.send_data(streams[-1], grpc_message(b"\xff"), end=True)
        assert connection.await_end(streams[-1]).status == "3"
        watcher.await_event(Event.OVER, 3)
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


def test_a_call_that_cannot_be_refused_is_cancelled_and_over(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with serve(stall_seconds=1) as (runner, watcher), Connection(runner.addresses[0]) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(UnaryCall, "finish", fail)
            connection.open(RESHAPE)
            watcher.await_end()
        assert (runner._admission.used_bytes, runner._admission.is_idle) == (0, True)


def test_a_call_is_answered_before_its_caller_ends_its_side():
    with serve() as (runner, watcher), Connection(runner.addresses[0]) as connection:
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(b"\xff"))
        assert connection.await_end(stream).status == "3"
        assert watcher.await_end() == "INVALID_ARGUMENT"
