"""The budget by itself: who may receive, who waits, and who is given up."""

import time
from collections.abc import Iterator

import pytest

from tensor_reshape.core.errors import LimitError, Reason
from tensor_reshape.server import admission as module
from tensor_reshape.server.admission import Admission, Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1000
READ = COST_FACTOR * MESSAGE


class Caller:
    """A call with plain callbacks that keep what happened."""

    def __init__(self, admission: Admission, peer: str = "a", log: list["Caller"] | None = None) -> None:
        self.admission = admission
        self.started = 0
        self.refusals: list[LimitError] = []
        self.ticket = Ticket(self._start, self.refusals.append, lambda: peer)
        self._log = log
        admission.enter(self.ticket)

    def _start(self) -> None:
        self.started += 1
        if self._log is not None:
            self._log.append(self)

    def read(self) -> "Caller":
        self.admission.read(self.ticket)
        return self

    def leave(self) -> None:
        self.admission.leave(self.ticket)


def make(reads: float, *, message: int = MESSAGE, stall_seconds: float = 30.0, max_calls: int = 1024) -> Admission:
    """Has room for so many reads: fewer than a configuration allows, so that a few calls fill it."""
    budget = 100 * message
    admission = Admission(
        Config(
            max_message_bytes=message,
            memory_budget_bytes=budget,
            stall_seconds=stall_seconds,
            max_calls=max_calls,
        )
    )
    admission._budget = int(reads * COST_FACTOR * message)
    return admission


def get_used(admission: Admission) -> int:
    return admission._used


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which stands still until a test sets it."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    yield now
    assert time.monotonic() > 0


def test_a_read_begins_at_once_where_there_is_room():
    admission = make(1)
    assert (Caller(admission).read().started, get_used(admission)) == (1, READ)


def test_a_read_without_room_waits_until_another_call_leaves():
    admission = make(1.9)
    first, second = Caller(admission).read(), Caller(admission).read()
    assert (second.started, second.ticket.waiting) == (0, True)
    first.leave()
    assert (second.started, second.ticket.waiting) == (1, False)


def test_a_read_without_room_waits_until_another_call_keeps_less():
    admission = make(1.5)
    first, second = Caller(admission).read(), Caller(admission).read()
    admission.receive(first.ticket, READ // 2 + 1)
    assert second.started == 0
    admission.receive(first.ticket, READ // 2)
    assert (second.started, get_used(admission)) == (1, READ + READ // 2)


def test_who_came_first_is_first():
    admission, log = make(1), list[Caller]()
    running = Caller(admission).read()
    waiting = [Caller(admission, log=log).read() for _ in range(5)]
    running.leave()
    for caller in waiting:
        caller.leave()
    assert log == waiting


def test_a_read_never_overtakes_those_that_wait():
    admission = make(1)
    first = Caller(admission).read()
    second = Caller(admission).read()
    admission.receive(first.ticket, 1)
    third = Caller(admission).read()
    assert (second.started, third.started) == (0, 0)
    first.leave()
    assert (second.started, third.started) == (1, 0)


def test_connections_take_turns():
    admission, log = make(1), list[Caller]()
    running = Caller(admission).read()
    greedy = [Caller(admission, "greedy", log).read() for _ in range(4)]
    modest = [Caller(admission, "modest", log).read() for _ in range(2)]
    last = Caller(admission, "last", log).read()
    running.leave()
    while len(log) < 7:
        log[-1].leave()
    assert log == [greedy[0], modest[0], last, greedy[1], modest[1], greedy[2], greedy[3]]


def test_room_for_several_lets_several_begin():
    admission = make(3)
    running = [Caller(admission).read() for _ in range(3)]
    waiting = [Caller(admission, str(number)).read() for number in range(4)]
    for caller in running:
        caller.leave()
    assert [caller.started for caller in waiting] == [1, 1, 1, 0]


def test_a_call_leaves_once_however_often_it_says_so():
    admission = make(2)
    first, second = Caller(admission).read(), Caller(admission).read()
    first.leave()
    first.leave()
    assert (get_used(admission), admission.is_idle) == (READ, False)
    second.leave()
    assert (get_used(admission), admission.is_idle) == (0, True)


def test_a_call_that_leaves_while_it_waits_never_begins():
    admission = make(1)
    first, second, third = (Caller(admission).read() for _ in range(3))
    second.leave()
    first.leave()
    assert (second.started, third.started, get_used(admission)) == (0, 1, READ)


def test_a_call_that_waited_and_left_leaves_its_connection_its_turns():
    admission = make(1)
    first, second = Caller(admission).read(), Caller(admission, "b").read()
    second.leave()
    third = Caller(admission, "b").read()
    first.leave()
    assert third.started == 1


def test_what_is_held_and_what_is_kept_are_accounted_beside_what_is_read():
    admission = make(3)
    caller = Caller(admission).read()
    admission.receive(caller.ticket, 10)
    admission.hold(caller.ticket, 500)
    assert get_used(admission) == 510
    caller.read()
    assert get_used(admission) == 510 + READ
    admission.keep(caller.ticket, 3)
    assert get_used(admission) == 503 + READ
    admission.receive(caller.ticket, 20)
    assert get_used(admission) == 520
    admission.hold(caller.ticket, 0)
    assert get_used(admission) == 20
    caller.leave()
    assert get_used(admission) == 0


def test_what_is_no_longer_held_makes_room():
    admission = make(1.5)
    holder, waiting = Caller(admission), Caller(admission)
    admission.hold(holder.ticket, READ)
    waiting.read()
    assert waiting.started == 0
    admission.hold(holder.ticket, READ // 2)
    assert waiting.started == 1


def test_nothing_is_accounted_to_a_call_that_has_left():
    admission = make(2)
    caller = Caller(admission).read()
    caller.leave()
    caller.read()
    admission.receive(caller.ticket, 10)
    admission.keep(caller.ticket, 10)
    admission.hold(caller.ticket, 10)
    assert (caller.started, get_used(admission), admission.is_idle) == (1, 0, True)


def test_a_call_that_leaves_while_it_waits_is_not_given_the_room_that_it_leaves():
    admission = make(1)
    caller = Caller(admission).read()
    admission.receive(caller.ticket, 1)
    caller.read()
    assert caller.ticket.waiting
    caller.leave()
    assert (caller.started, get_used(admission)) == (1, 0)


def test_what_does_not_fit_is_not_held():
    admission = make(1)
    caller = Caller(admission).read()
    admission.receive(caller.ticket, 30)
    admission.hold(caller.ticket, 100)
    with pytest.raises(LimitError) as caught:
        admission.hold(caller.ticket, READ - 29)
    assert (caught.value.reason, get_used(admission)) == (Reason.SERVER_BUSY, 130)
    admission.hold(caller.ticket, READ - 30)
    assert get_used(admission) == READ


def test_a_call_above_the_number_of_calls_is_refused():
    admission = make(100, max_calls=2)
    first = Caller(admission)
    Caller(admission)
    with pytest.raises(LimitError) as caught:
        Caller(admission)
    assert caught.value.reason == Reason.SERVER_BUSY
    first.leave()
    Caller(admission)


def test_a_call_without_progress_is_given_up(clock: list[float]):
    admission = make(2, stall_seconds=5.0)
    stalled, other = Caller(admission).read(), Caller(admission).read()
    clock[0] += 4
    admission.receive(other.ticket, 1)
    clock[0] += 1.5
    admission.sweep()
    assert ([error.reason for error in stalled.refusals], other.refusals) == ([Reason.STALLED], [])


def test_a_call_within_its_time_is_left_alone(clock: list[float]):
    admission = make(2, stall_seconds=5.0)
    caller = Caller(admission).read()
    clock[0] += 4.9
    admission.sweep()
    assert caller.refusals == []


def test_while_others_wait_a_call_without_progress_is_given_up_sooner(clock: list[float]):
    admission = make(1, stall_seconds=30.0)
    stalled = Caller(admission).read()
    clock[0] += module.MIN_PRESSURE_SECONDS - 0.1
    waiting = Caller(admission).read()
    admission.sweep()
    assert stalled.refusals == []
    clock[0] += 0.2
    admission.sweep()
    assert ([error.reason for error in stalled.refusals], waiting.refusals) == ([Reason.STALLED], [])
    stalled.leave()
    assert waiting.started == 1


def test_the_largest_message_has_time_to_arrive_while_others_wait(clock: list[float]):
    size = 100 * module.MIN_BYTES_PER_SECOND
    admission = make(1, stall_seconds=3000.0, message=size)
    slow, _ = Caller(admission).read(), Caller(admission).read()
    clock[0] += 99
    admission.sweep()
    assert slow.refusals == []
    clock[0] += 2
    admission.sweep()
    assert [error.reason for error in slow.refusals] == [Reason.STALLED]


def test_a_call_that_waits_too_long_is_refused_and_forgotten(clock: list[float]):
    admission = make(1)
    running, waiting, next_one = Caller(admission).read(), Caller(admission).read(), Caller(admission)
    clock[0] += module.MIN_PRESSURE_SECONDS + 0.1
    admission.receive(running.ticket, READ)
    next_one.read()
    admission.sweep()
    assert [error.reason for error in waiting.refusals] == [Reason.SERVER_BUSY]
    running.leave()
    assert (waiting.started, next_one.started) == (0, 1)


def test_a_refusal_for_want_of_room_may_be_repeated(clock: list[float]):
    admission = make(1)
    running, waiting = Caller(admission).read(), Caller(admission).read()
    clock[0] += module.MIN_PRESSURE_SECONDS + 0.1
    admission.sweep()
    assert {running.refusals[0].reason, waiting.refusals[0].reason} == {Reason.STALLED, Reason.SERVER_BUSY}
    assert get_used(admission) == READ
    for caller in (waiting, running, waiting):
        caller.leave()
    assert (get_used(admission), admission.is_idle) == (0, True)
