"""What observers are told of calls, and that they harm none."""

import logging
import threading
import time

import pytest

from admission_calls import METHOD, Caller, make
from tensor_reshape.rules.errors import LimitError
from tensor_reshape.server.calls.lifecycle import GONE, Ending, Event, State
from tensor_reshape.server.calls.observers import CallRecord
from tensor_reshape.server.calls.statuses import OK


class Recorder:
    """An observer that keeps the events, and the last record."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.states: list[State] = []
        self.records: list[CallRecord] = []

    def observe(self, record: CallRecord, event: Event) -> None:
        self.events.append(event)
        self.states.append(record.state)
        if record not in self.records:
            self.records.append(record)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_a_unary_call_is_seen_from_its_beginning_to_its_end(recorder: Recorder):
    admission = make(4, observers=[recorder])
    Caller(admission, "peer").read().arrive(100).end(30).leave()
    (record,) = recorder.records
    assert recorder.events == [Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.END, Event.OVER]
    assert (record.method, record.peer, record.ending, record.state) == (METHOD, "peer", OK, State.DONE)
    assert (record.request_messages, record.request_bytes) == (1, 100)
    assert (record.response_messages, record.response_bytes) == (1, 30)


def test_each_answer_of_a_stream_counts_when_it_is_sent(recorder: Recorder):
    admission = make(4, observers=[recorder])
    stream = Caller(admission).read().arrive(100).answer(10, 20)
    admission.sent(stream.life, 10)
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (1, 10)
    admission.sent(stream.life, 20)
    assert (recorder.records[0].response_messages, recorder.records[0].response_bytes) == (2, 30)
    assert recorder.events[4:] == [Event.ANSWER, Event.ASK, Event.READ, Event.SENT, Event.SENT]


def test_the_time_in_each_state_is_the_time_of_the_call(recorder: Recorder):
    begin = time.monotonic()
    Caller(make(4, observers=[recorder])).read().arrive().work().take_up().end(1).leave()
    seconds = recorder.records[0].seconds
    assert set(seconds) == {State.NEW, State.WAITING, State.RECEIVING, State.WORKING, State.QUEUED, State.ENDING}
    assert min(seconds.values()) >= 0
    assert sum(seconds.values()) <= time.monotonic() - begin


def test_a_call_that_is_refused_at_once_is_seen(recorder: Recorder):
    admission = make(4, max_calls=1, observers=[recorder])
    Caller(admission)
    with pytest.raises(LimitError):
        Caller(admission, "refused")
    assert [record.peer for record in recorder.records] == ["a", "refused"]


@pytest.mark.parametrize(
    ("ended", "gone", "ending"),
    [(False, False, GONE), (False, True, GONE), (True, False, OK), (True, True, GONE)],
    ids=["not ended", "gone", "ended", "gone before the end was sent"],
)
def test_a_caller_who_is_gone_before_he_is_told_the_end_has_cancelled(
    recorder: Recorder, ended: bool, gone: bool, ending: Ending
):
    admission = make(4, observers=[recorder])
    caller = Caller(admission).read().arrive()
    if ended:
        caller.end(5)
    admission.release(caller.life, gone=gone)
    caller.end(5)  # of the thread that worked on it
    assert (recorder.records[0].ending, recorder.records[0].state) == (ending, State.DONE)


def test_what_comes_late_is_no_event(recorder: Recorder):
    caller = Caller(make(4, observers=[recorder])).read().arrive().end(5)
    seen = list(recorder.events)
    caller.answer(3).take_up().end(7)
    assert recorder.events == seen
    caller.leave()
    caller.leave()
    assert recorder.events == [*seen, Event.OVER]


class Broken:
    """An observer with a bug."""

    def observe(self, record: CallRecord, event: Event) -> None:
        raise RuntimeError(record, event)


def test_an_observer_that_raises_is_logged_and_harms_nobody(recorder: Recorder, caplog: pytest.LogCaptureFixture):
    admission = make(4, observers=[Broken(), recorder])
    with caplog.at_level(logging.ERROR):
        Caller(admission).read().arrive(10).end(5).leave()
    assert len(recorder.events) == 6
    assert [(record.message, record.exc_info is not None) for record in caplog.records] == [("bug", True)] * 6
    assert admission.is_idle


class Meddler(Recorder):
    """An observer that calls the admission: it would wait for ever if a lock were held."""

    def __init__(self) -> None:
        super().__init__()
        self.caller: Caller | None = None

    def observe(self, record: CallRecord, event: Event) -> None:
        super().observe(record, event)
        if event is Event.ARRIVE and self.caller is not None:
            self.caller.end(1)


def test_an_observer_is_called_without_the_lock_and_sees_what_it_causes_afterwards():
    meddler = Meddler()
    meddler.caller = Caller(make(4, observers=[meddler]))
    meddler.caller.read().arrive(10)
    assert meddler.events == [Event.ENTER, Event.ASK, Event.READ, Event.ARRIVE, Event.END]


class Slow(Recorder):
    """An observer that is held up by the first event until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()

    def observe(self, record: CallRecord, event: Event) -> None:
        super().observe(record, event)
        self.reached.set()
        assert self.go_on.wait(60)


def test_a_thread_does_not_wait_for_an_observer_that_another_thread_has_called():
    slow = Slow()
    admission = make(4, observers=[slow])
    thread = threading.Thread(target=lambda: Caller(admission, "first"))
    thread.start()
    assert slow.reached.wait(60)
    Caller(admission, "second").read().leave()
    assert slow.events == [Event.ENTER]
    slow.go_on.set()
    thread.join(60)
    assert slow.events == [Event.ENTER, Event.ENTER, Event.ASK, Event.READ, Event.OVER]


def test_nothing_is_kept_of_a_call_that_is_over(recorder: Recorder):
    admission = make(4, observers=[recorder])
    for _ in range(3):
        Caller(admission).read().leave()
    assert admission._observers is not None
    assert admission._observers._records == {}


def test_without_observers_there_is_no_journal():
    assert make(4)._observers is None
