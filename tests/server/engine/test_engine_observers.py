"""The records of calls that observers get. An observer cannot harm a call."""

import logging
import threading
import time

import pytest

from engine_calls import METHOD, PEER, Caller, make, name_peer
from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.call_info import CallInfo, Metadata
from tensor_reshape.server.calls.results import GONE, OK, CallResult, EndedCall
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.engine.lifecycle import Event, Journal, Lifecycle, State

BEGINS = [Event.ENTER, Event.REQUEST, Event.READ]


class Recorder:
    """An observer that keeps the records of calls."""

    def __init__(self) -> None:
        self.records: list[EndedCall] = []

    def chooses(self, metadata: Metadata) -> bool:
        del metadata
        return True

    def begin(self, info: CallInfo) -> None:
        pass

    def write(self, call: EndedCall) -> None:
        self.records.append(call)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_unary_call_is_observed_when_it_is_over(recorder: Recorder):
    caller = Caller(make(4, observers=[recorder])).arrive(100).end(30)
    assert recorder.records == []
    caller.leave()
    (record,) = recorder.records
    assert (record.info.method, record.result) == (METHOD, OK)
    assert (record.request_messages, record.request_bytes) == (1, 100)
    assert (record.response_messages, record.response_bytes) == (1, 30)


def test_observed_stream_counts_the_responses_that_were_sent(recorder: Recorder):
    Caller(make(4, observers=[recorder])).arrive(100).respond(10, 20, 40).sent(10).sent(20).leave()
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (2, 30)
    assert (recorder.records[0].request_messages, recorder.records[0].request_bytes) == (1, 100)


def test_observed_seconds_per_state_add_up_to_the_call_duration(recorder: Recorder):
    begin = time.monotonic()
    Caller(make(4, observers=[recorder])).arrive().work().begin_work().end(1).leave()
    seconds = recorder.records[0].seconds
    assert set(seconds) == {"new", "waiting", "receiving", "working", "queued", "ending"}
    assert min(seconds.values()) >= 0
    assert sum(seconds.values()) <= time.monotonic() - begin


def test_immediately_rejected_call_is_observed(recorder: Recorder):
    engine = make(4, max_calls=1, observers=[recorder])
    life = Lifecycle(Caller(engine), METHOD)
    engine.prepare(life, (), lambda: CallInfo(METHOD, ()))
    with pytest.raises(LimitError):
        engine.enter(life, find_source(name_peer(2)))
    engine.perform(engine.end(life, CallResult("RESOURCE_EXHAUSTED"))[1])
    engine.perform(engine.release(life))
    assert [record.result for record in recorder.records] == [("RESOURCE_EXHAUSTED", "")]


@pytest.mark.parametrize(
    ("ended", "gone", "result"),
    [(False, False, GONE), (False, True, GONE), (True, False, OK), (True, True, GONE)],
    ids=["not ended", "gone", "ended", "gone before the end was sent"],
)
def test_call_disconnected_before_its_status_is_observed_as_cancelled(
    recorder: Recorder, ended: bool, gone: bool, result: CallResult
):
    caller = Caller(make(4, observers=[recorder])).arrive()
    if ended:
        caller.end(5)
    caller.perform(caller.engine.release(caller.life, gone=gone))
    caller.end(5)  # from the thread that worked on the call
    assert recorder.records[0].result == result
    assert recorder.records[0].response_messages == ended


def test_events_after_the_end_of_a_call_are_not_observed(recorder: Recorder):
    caller = Caller(make(4, observers=[recorder])).arrive().end(5)
    caller.arrive(7).respond(3).begin_work().end(7)
    caller.leave()
    caller.leave()
    (record,) = recorder.records
    assert (record.request_messages, record.response_messages, record.response_bytes) == (1, 1, 5)


class BrokenEnd(Recorder):
    """An observer with a bug when a call is over."""

    def write(self, call: EndedCall) -> None:
        raise RuntimeError(call)


class BrokenAtBegin(Recorder):
    """An observer with a bug when a call begins."""

    def begin(self, info: CallInfo) -> None:
        raise RuntimeError(info)


class BrokenChoice(Recorder):
    """An observer with a bug in its choice of calls."""

    def chooses(self, metadata: Metadata) -> bool:
        raise RuntimeError(metadata)


@pytest.mark.parametrize("broken", [BrokenEnd(), BrokenAtBegin(), BrokenChoice()], ids=lambda one: type(one).__name__)
def test_call_observer_exception_is_logged_and_isolated(
    broken: Recorder, recorder: Recorder, caplog: pytest.LogCaptureFixture
):
    engine = make(4, observers=[broken, recorder])
    with caplog.at_level(logging.ERROR):
        Caller(engine).arrive(10).end(5).leave()
    assert len(recorder.records) == 1
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)]
    assert engine.is_idle


class Chooser(Recorder):
    """An observer that chooses no call."""

    def chooses(self, metadata: Metadata) -> bool:
        return bool(metadata)


def test_call_that_no_observer_chooses_has_no_record():
    chooser = Chooser()
    caller = Caller(make(4, observers=[chooser]))
    assert (caller.life.info, caller.life.journals) == (None, ())
    caller.arrive(10).end(5).leave()
    assert chooser.records == []


class Meddler(Recorder):
    """An observer that calls the engine, which would deadlock if a lock were held."""

    def __init__(self) -> None:
        super().__init__()
        self.caller: Caller | None = None

    def write(self, call: EndedCall) -> None:
        super().write(call)
        if self.caller is not None:
            self.caller.end(1)


def test_call_observer_runs_without_the_engine_lock():
    meddler = Meddler()
    engine = make(4, observers=[meddler])
    meddler.caller = other = Caller(engine, PEER).arrive(10)
    Caller(engine, name_peer(2)).leave()
    assert (len(meddler.records), other.life.state) == (1, State.ENDING)


class Slow(Recorder):
    """An observer that blocks at the first call until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def write(self, call: EndedCall) -> None:
        super().write(call)
        if len(self.records) == 1:
            self.reached.set()
            assert self.go_on.wait(60)


def test_thread_does_not_wait_for_a_running_call_observer():
    slow = Slow()
    engine = make(4, observers=[slow])
    thread = threading.Thread(target=Caller(engine).leave)
    thread.start()
    assert slow.reached.wait(60)
    Caller(engine, name_peer(2)).leave()
    assert len(slow.records) == 2
    slow.go_on.set()
    thread.join(60)


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
