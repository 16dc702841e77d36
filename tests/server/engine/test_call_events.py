"""Observers see the events of calls over a real socket in order, for every outcome.

SENT is omitted, because its time depends on the transport.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ended_calls import (
    BEGINS,
    CASES,
    GOOD,
    LONG,
    QUEUES,
    RESHAPE,
    SECONDS,
    STALL_SECONDS,
    STREAM,
    end_call,
    pack,
    serve,
)
from http2 import HEALTH_CHECK, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import BlockedBackend
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.engine.lifecycle import Event, State
from tensor_reshape.server.engine.observers import CallRecord, Observer
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import Backend


@dataclass(eq=False)
class Recorder(Observer):
    """An observer that waits for the ends of calls."""

    news: threading.Condition = field(default_factory=threading.Condition)
    events: dict[int, list[Event]] = field(default_factory=dict)
    done: list[tuple[CallRecord, str]] = field(default_factory=list)

    def observe(self, record: CallRecord, event: Event) -> None:
        with self.news:
            events = self.events.setdefault(id(record), [])
            if event is not Event.SENT:
                events.append(event)
            if record.state is State.DONE:
                del self.events[id(record)]
                self.done.append((record, " ".join(one.name for one in events)))
            self.news.notify_all()

    def await_event(self, event: Event) -> None:
        """Waits until the only call has reached this event."""
        with self.news:
            assert self.news.wait_for(lambda: any(event in events for events in self.events.values()), SECONDS)

    def await_end(self) -> tuple[CallRecord, str]:
        """Waits for the end of the only call, and returns its observed events."""
        with self.news:
            assert self.news.wait_for(lambda: self.done, SECONDS), self.events
            return self.done.pop()


@dataclass
class Served:
    """A server and its observers."""

    address: str
    recorder: Recorder
    runner: Runner


@contextmanager
def watch(backend: Backend = reshape, **settings: Any) -> Iterator[Served]:
    recorder = Recorder()
    with serve(backend, observers=[recorder], **settings) as runner:
        yield Served(runner.addresses[0], recorder, runner)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with watch(stall_timeout_seconds=STALL_SECONDS) as served:
        yield served


@pytest.mark.parametrize("name", CASES)
def test_call_observers_see_the_events_of_unary_and_stream_calls(served: Served, name: str):
    case = CASES[name]
    end_call(served.address, case.path, case.data, ends=case.ends)
    record, seen = served.recorder.await_end()
    assert (seen, record.result) == (case.events, (case.code, case.reason))
    assert served.runner._engine.used_bytes == 0


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_oversized_message_is_observed_with_the_status_sent_to_clients(path: str):
    with watch(max_message_bytes=4096) as served:
        told = end_call(served.address, path, pack(LONG))
        record, seen = served.recorder.await_end()
    assert (seen, told["grpc-status"]) == ("ENTER REQUEST READ HALF_CLOSE END OVER", "8")
    assert record.result == ("RESOURCE_EXHAUSTED", Reason.MESSAGE_TOO_LARGE)


def test_call_observers_ignore_health_checks(served: Served):
    with Connection(served.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok
    end_call(served.address, RESHAPE, pack(GOOD))
    assert served.recorder.await_end()[0].method == RESHAPE


def cancel(connection: Connection, stream: int) -> None:
    connection.send(frame(Frame.RST_STREAM, 0, stream, bytes(3) + b"\x08"))


@pytest.mark.parametrize(
    ("headers", "go"),
    [([], cancel), ([("grpc-timeout", "1500m")], lambda *_: None)],
    ids=["it is cancelled", "its deadline passes"],
)
def test_cancelled_call_is_over_when_its_thread_ends(
    headers: list[tuple[str, str]], go: Callable[[Connection, int], None]
):
    backend = BlockedBackend()
    with watch(backend) as served, Connection(served.address) as connection:
        stream = connection.open(RESHAPE, headers=headers)
        connection.send_data(stream, grpc_message(LONG))
        try:
            assert backend.entered.wait(SECONDS)
            go(connection, stream)
            served.recorder.await_event(Event.OVER)
            assert served.runner._engine.used_bytes > 0
        finally:
            backend.released.set()
        record, seen = served.recorder.await_end()
        assert (seen, record.result) == (f"{BEGINS} {QUEUES} OVER END", ("CANCELLED", ""))
        assert served.runner._engine.used_bytes == 0


def test_unread_response_is_observed_as_cancelled():
    with (
        watch(stall_timeout_seconds=STALL_SECONDS) as served,
        Connection(served.address, initial_window=0) as connection,
    ):
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(LONG))
        record, seen = served.recorder.await_end()
    assert seen == f"{BEGINS} {QUEUES} END ABORT OVER"
    assert record.seconds["ending"] >= STALL_SECONDS
