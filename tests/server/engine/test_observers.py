"""The events that observers receive. An observer cannot harm a call."""

import logging
import threading
import time

import pytest

from engine_calls import METHOD, PEER, Caller, make, name_peer
from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import GONE, OK, CallResult
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.engine.effects import build_perform
from tensor_reshape.server.engine.lifecycle import Event, Journal, Lifecycle, State
from tensor_reshape.server.engine.observers import CallRecord, Observer, ObserverJournal

BEGINS = [Event.ENTER, Event.REQUEST, Event.READ]


class Recorder(Observer):
    """An observer that records the events and the call records."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.records: list[CallRecord] = []

    def observe(self, record: CallRecord, event: Event) -> None:
        self.events.append(event)
        if record not in self.records:
            self.records.append(record)


class Watched:
    """An engine with observed calls."""

    def __init__(self, *observers: Observer, max_calls: int = 1024) -> None:
        self.journal = ObserverJournal(observers)
        self.engine = make(4, max_calls=max_calls, observed=self.journal)
        self.perform = build_perform(self.journal.deliver)

    def call(self, peer: str = PEER) -> Caller:
        return Caller(self.engine, peer, self.perform)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_unary_call_is_observed_from_begin_to_end(recorder: Recorder):
    Watched(recorder).call().arrive(100).end(30).leave()
    (record,) = recorder.records
    assert recorder.events == [*BEGINS, Event.ARRIVE, Event.END, Event.OVER]
    assert (record.method, record.peer, record.result, record.state) == (METHOD, PEER, OK, State.DONE)
    assert (record.request_messages, record.request_bytes) == (1, 100)
    assert (record.response_messages, record.response_bytes) == (1, 30)


def test_stream_responses_are_observed_when_sent(recorder: Recorder):
    stream = Watched(recorder).call().arrive(100).respond(10, 20)
    stream.sent(10)
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (1, 10)
    stream.sent(20)
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (2, 30)
    assert recorder.events[4:] == [Event.RESPOND, Event.REQUEST, Event.READ, Event.SENT, Event.SENT]


def test_observed_seconds_per_state_add_up_to_the_call_duration(recorder: Recorder):
    begin = time.monotonic()
    Watched(recorder).call().arrive().work().begin_work().end(1).leave()
    seconds = recorder.records[0].seconds
    assert set(seconds) == {"new", "waiting", "receiving", "working", "queued", "ending"}
    assert min(seconds.values()) >= 0
    assert sum(seconds.values()) <= time.monotonic() - begin


def test_immediately_rejected_call_is_observed(recorder: Recorder):
    watched = Watched(recorder, max_calls=1)
    life = Lifecycle(watched.call(), METHOD)
    watched.engine.prepare(life, (), lambda: CallInfo(METHOD, ()))
    with pytest.raises(LimitError):
        watched.engine.enter(life, find_source(name_peer(2)))
    watched.perform(watched.engine.end(life, CallResult("RESOURCE_EXHAUSTED")).effects)
    assert [record.peer for record in recorder.records] == [PEER, name_peer(2)]
    assert recorder.events[3:] == [Event.ENTER, Event.END]


@pytest.mark.parametrize(
    ("ended", "gone", "result"),
    [(False, False, GONE), (False, True, GONE), (True, False, OK), (True, True, GONE)],
    ids=["not ended", "gone", "ended", "gone before the end was sent"],
)
def test_call_disconnected_before_its_status_is_observed_as_cancelled(
    recorder: Recorder, ended: bool, gone: bool, result: CallResult
):
    watched = Watched(recorder)
    caller = watched.call().arrive()
    if ended:
        caller.end(5)
    watched.perform(watched.engine.release(caller.life, gone=gone))
    caller.end(5)  # from the thread that worked on the call
    assert (recorder.records[0].result, recorder.records[0].state) == (result, State.DONE)
    assert recorder.records[0].response_messages == ended


def test_events_after_the_end_of_a_call_are_not_observed(recorder: Recorder):
    caller = Watched(recorder).call().arrive().end(5)
    seen = list(recorder.events)
    caller.respond(3).begin_work().end(7)
    assert recorder.events == seen
    caller.leave()
    caller.leave()
    assert recorder.events == [*seen, Event.OVER]


class Broken(Observer):
    """An observer with a bug."""

    def observe(self, record: CallRecord, event: Event) -> None:
        raise RuntimeError(record, event)


def test_call_observer_exception_is_logged_and_isolated(recorder: Recorder, caplog: pytest.LogCaptureFixture):
    watched = Watched(Broken(), recorder)
    with caplog.at_level(logging.ERROR):
        watched.call().arrive(10).end(5).leave()
    assert len(recorder.events) == 6
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)] * 6
    assert watched.engine.is_idle


class BrokenAtBegin(Recorder):
    """An observer with a bug before the first event."""

    def begin(self, info: CallInfo) -> None:
        raise RuntimeError(info)


class BrokenChoice(Recorder):
    """An observer with a bug in its choice of calls."""

    def chooses(self, metadata: Metadata) -> bool:
        raise RuntimeError(metadata)


@pytest.mark.parametrize("observer", [BrokenAtBegin(), BrokenChoice()], ids=lambda one: type(one).__name__)
def test_call_observer_exception_before_the_first_event_is_isolated(
    observer: Recorder, recorder: Recorder, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.ERROR):
        Watched(observer, recorder).call().arrive(10).end(5).leave()
    assert len(recorder.events) == 6
    assert [record.message for record in caplog.records] == ["bug"]


class Meddler(Recorder):
    """An observer that calls the engine, which would deadlock if a lock were held."""

    def __init__(self) -> None:
        super().__init__()
        self.caller: Caller | None = None

    def observe(self, record: CallRecord, event: Event) -> None:
        super().observe(record, event)
        if event is Event.ARRIVE and self.caller is not None:
            self.caller.end(1)


def test_call_observer_runs_without_the_engine_lock():
    meddler = Meddler()
    watched = Watched(meddler)
    meddler.caller = watched.call()
    meddler.caller.arrive(10)
    watched.perform(())  # like all effects, these reach the observer first
    assert meddler.events == [*BEGINS, Event.ARRIVE, Event.END]


class Slow(Recorder):
    """An observer that blocks at the first event until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def observe(self, record: CallRecord, event: Event) -> None:
        super().observe(record, event)
        self.reached.set()
        assert self.go_on.wait(60)


def test_thread_does_not_wait_for_a_running_call_observer():
    slow = Slow()
    watched = Watched(slow)
    thread = threading.Thread(target=watched.call)
    thread.start()
    assert slow.reached.wait(60)
    watched.call(name_peer(2)).leave()
    assert slow.events == [Event.ENTER]
    slow.go_on.set()
    thread.join(60)
    assert slow.events == [*BEGINS, *BEGINS, Event.OVER]


def test_event_journal_keeps_no_record_of_a_finished_call(recorder: Recorder):
    watched = Watched(recorder)
    for _ in range(3):
        watched.call().leave()
    assert watched.journal._records == {}


class Notes:
    """A journal that records its name and the events."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name, self._notes = name, notes

    def record(self, life: Lifecycle, event: Event, before: State, size: int, result: CallResult | None) -> None:
        del life, before, size, result
        self._notes.append(f"{self._name} {event.name}")


def test_every_event_journal_records_each_call_event():
    notes: list[str] = []
    journals: list[Journal] = [Notes(name, notes) for name in ("one", "other")]
    Caller(make(1, journals=journals))
    assert notes == [f"{name} {event.name}" for event in BEGINS for name in ("one", "other")]
