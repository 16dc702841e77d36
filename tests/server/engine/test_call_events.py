"""Journals record the events of calls over a real socket in order, for every outcome.

SENT is omitted, because its time depends on the transport.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from http2 import HEALTH_CHECK, Connection, frame, grpc_message
from http2 import Kind as Frame
from in_process import (
    BEGINS,
    CASES,
    GOOD,
    LONG,
    QUEUES,
    RESHAPE,
    STALL_SECONDS,
    STREAM,
    WAIT_SECONDS,
    BlockedBackend,
    end_call,
    pack,
    serve,
)
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.results import CallResult
from tensor_reshape.server.engine.engine import CallRecord
from tensor_reshape.server.engine.lifecycle import Event, Lifecycle, State
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.service.backend import reshape
from tensor_reshape.server.service.methods import Backend


@dataclass(eq=False)
class Recorder:
    """A journal that waits for the ends of calls."""

    news: threading.Condition = field(default_factory=threading.Condition)
    events: dict[Lifecycle, list[Event]] = field(default_factory=dict)
    records: dict[Lifecycle, CallRecord] = field(default_factory=dict)
    done: list[tuple[CallRecord, str]] = field(default_factory=list)

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        if before is State.DONE:
            return
        with self.news:
            events = self.events.setdefault(life, [])
            record = self.records.setdefault(life, CallRecord(CallInfo(life.method, ()), time.monotonic()))
            record.record(life, event, before, size, result)
            if event in {Event.ENTER, Event.GRANT} or life.state is not before:
                events.append(event)
            if life.state is State.DONE:
                del self.events[life], self.records[life]
                self.done.append((record, " ".join(one.name for one in events)))
            self.news.notify_all()

    def await_event(self, event: Event) -> None:
        """Waits until the only call has reached this event."""
        with self.news:
            assert self.news.wait_for(lambda: any(event in events for events in self.events.values()), WAIT_SECONDS)

    def await_end(self) -> tuple[CallRecord, str]:
        """Waits for the end of the only call, and returns its observed events."""
        with self.news:
            assert self.news.wait_for(lambda: self.done, WAIT_SECONDS), self.events
            return self.done.pop()


@dataclass
class Served:
    """A server and its journal."""

    address: str
    recorder: Recorder
    runner: Runner

    def count_used_bytes(self) -> int:
        self.runner._engine.list_calls()  # waits for the lock: DONE is recorded before the memory is returned
        return self.runner._engine.used_bytes


@contextmanager
def watch(backend: Backend = reshape, **settings: Any) -> Iterator[Served]:
    recorder = Recorder()
    with serve(backend, journals=[recorder], **settings) as runner:
        yield Served(runner.addresses[0], recorder, runner)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with watch(stall_timeout_seconds=STALL_SECONDS) as served:
        yield served


@pytest.mark.parametrize("name", CASES)
def test_journal_records_the_events_of_unary_and_stream_calls(served: Served, name: str):
    case = CASES[name]
    end_call(served.address, case.path, case.data, ends=case.ends)
    record, seen = served.recorder.await_end()
    assert (seen, record.result) == (case.events, (case.code, case.reason))
    assert served.count_used_bytes() == 0


@pytest.mark.parametrize("path", [RESHAPE, STREAM])
def test_oversized_message_is_recorded_with_the_status_sent_to_clients(path: str):
    with watch(max_message_bytes=4096) as served:
        told = end_call(served.address, path, pack(LONG))
        record, seen = served.recorder.await_end()
    assert (seen, told["grpc-status"]) == ("ENTER REQUEST READ HALF_CLOSE END OVER", "8")
    assert record.result == ("RESOURCE_EXHAUSTED", Reason.MESSAGE_TOO_LARGE)


def test_journal_has_no_health_checks(served: Served):
    with Connection(served.address) as connection:
        assert connection.call(HEALTH_CHECK, b"").is_ok
    end_call(served.address, RESHAPE, pack(GOOD))
    assert served.recorder.await_end()[0].info.method == RESHAPE


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
            assert backend.entered.wait(WAIT_SECONDS)
            go(connection, stream)
            served.recorder.await_event(Event.OVER)
            assert served.runner._engine.used_bytes > 0
        finally:
            backend.released.set()
        record, seen = served.recorder.await_end()
        assert (seen, record.result) == (f"{BEGINS} {QUEUES} OVER END", ("CANCELLED", ""))
        assert served.count_used_bytes() == 0


def test_unread_response_is_recorded_as_cancelled():
    with (
        watch(stall_timeout_seconds=STALL_SECONDS) as served,
        Connection(served.address, initial_window=0) as connection,
    ):
        stream = connection.open(RESHAPE)
        connection.send_data(stream, grpc_message(LONG))
        record, seen = served.recorder.await_end()
    assert seen == f"{BEGINS} {QUEUES} END ABORT OVER"
    assert record.seconds["ending"] >= STALL_SECONDS
