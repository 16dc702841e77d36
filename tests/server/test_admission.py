"""The budget by itself: who may receive, who waits, and who is given up."""

import time
from collections.abc import Iterator

import pytest

from tensor_reshape.core.errors import LimitError, Reason
from tensor_reshape.server import admission as module
from tensor_reshape.server.admission import Admission, Ticket
from tensor_reshape.server.config import COST_FACTOR, Config

MESSAGE = 1000
WORK = COST_FACTOR * MESSAGE


class Caller:
    """A call with plain callbacks that keep what happened."""

    def __init__(self, admission: Admission, peer: str = "a", log: list["Caller"] | None = None) -> None:
        self.admission = admission
        self.started = 0
        self.works = 0
        self.refusals: list[LimitError] = []
        self.ticket = Ticket(self._start, self.refusals.append)
        self._log = log
        admission.enter(self.ticket, peer)

    def _start(self) -> None:
        self.started += 1
        if self._log is not None:
            self._log.append(self)

    def read(self) -> "Caller":
        self.admission.read(self.ticket)
        return self

    def work(self, size: int = WORK) -> "Caller":
        self.admission.work(self.ticket, size, self._work)
        return self

    def _work(self) -> None:
        self.works += 1

    def leave(self) -> None:
        self.admission.leave(self.ticket)

    @property
    def waits(self) -> bool:
        return self.ticket.claim is not None


def make(reads: int, *, message: int = MESSAGE, stall_seconds: float = 30.0, max_calls: int = 1024) -> Admission:
    """Has room to receive so many messages, a quarter of them for connections that have nothing."""
    budget = 2 * reads * message + 2 * message
    config = Config(
        max_message_bytes=message, memory_budget_bytes=100 * message, stall_seconds=stall_seconds, max_calls=max_calls
    )
    object.__setattr__(
        config, "memory_budget_bytes", budget
    )  # less than may be configured, so that a few calls fill it
    return Admission(config)


def fill(admission: Admission, reads: int) -> list[Caller]:
    """Has so many connections receive a message each."""
    return [Caller(admission, f"filler {number}").read() for number in range(reads)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which stands still until a test sets it."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])}))
    yield now
    assert time.monotonic() > 0


def test_a_read_begins_at_once_where_there_is_room():
    admission = make(1)
    assert (Caller(admission).read().started, admission.used_bytes) == (1, MESSAGE)


def test_a_read_without_room_waits_until_another_call_leaves():
    admission = make(1)
    first, second = Caller(admission, "a").read(), Caller(admission, "b").read()
    assert (second.started, second.waits) == (0, True)
    first.leave()
    assert (second.started, second.waits) == (1, False)


def test_a_read_without_room_waits_until_another_message_has_arrived():
    admission = make(1)
    first, second = Caller(admission, "a").read(), Caller(admission, "b").read()
    admission.arrive(first.ticket, 1)
    assert second.started == 0
    admission.receive(first.ticket, 10)
    assert (second.started, admission.used_bytes) == (1, MESSAGE + 10)


def test_what_arrives_never_keeps_what_has_arrived_from_being_answered():
    admission = make(4)
    arrived = Caller(admission, "arrived").read()
    silent = fill(admission, 9)
    admission.arrive(arrived.ticket, MESSAGE)
    assert (sum(caller.started for caller in silent), arrived.work().works) == (3, 1)
    assert sum(caller.started for caller in silent) == 4  # its message is accounted to its answer now


def test_an_answer_without_room_waits_and_keeps_its_message():
    admission = make(4)
    first, second = Caller(admission, "a").read().work(), Caller(admission, "b").read()
    admission.arrive(second.ticket, MESSAGE - 1)
    second.work()
    assert (first.works, second.works, admission.used_bytes) == (1, 0, WORK + MESSAGE - 1)
    first.leave()
    assert (second.works, admission.used_bytes) == (1, WORK)


def test_what_an_answer_does_not_need_is_free_when_it_is_known():
    admission = make(4)
    caller = Caller(admission).read().work()
    admission.receive(caller.ticket, 10)
    assert admission.used_bytes == 10


def test_a_silent_connection_receives_only_so_many_messages_at_once():
    admission = make(100)
    silent = [Caller(admission, "silent").read() for _ in range(64)]
    assert sum(caller.started for caller in silent) == module.MAX_READS
    assert Caller(admission, "polite").read().started == 1


def test_many_silent_connections_leave_room_for_those_that_have_nothing():
    admission = make(24)
    silent = [Caller(admission, f"silent {number % 16}").read() for number in range(16 * 40)]
    assert sum(caller.started for caller in silent) == 18
    assert [Caller(admission, f"polite {number}").read().started for number in range(6)] == [1] * 6


def test_a_call_leaves_once_however_often_it_says_so():
    admission = make(4)
    first, second = Caller(admission).read(), Caller(admission).read()
    first.leave()
    first.leave()
    assert (admission.used_bytes, admission.is_idle) == (MESSAGE, False)
    second.leave()
    assert (admission.used_bytes, admission.is_idle) == (0, True)


def test_a_call_that_leaves_while_it_waits_never_begins():
    admission = make(1)
    first, second, third = (Caller(admission, peer).read() for peer in "abc")
    second.leave()
    first.leave()
    assert (second.started, third.started, admission.used_bytes) == (0, 1, MESSAGE)


def test_what_is_held_and_what_is_kept_are_accounted_beside_what_is_read():
    admission = make(8)
    caller = Caller(admission).read()
    admission.receive(caller.ticket, 10)
    admission.hold(caller.ticket, 500)
    assert admission.used_bytes == 510
    caller.read()
    assert admission.used_bytes == 510 + MESSAGE
    admission.keep(caller.ticket, 3)
    assert admission.used_bytes == 503 + MESSAGE
    admission.receive(caller.ticket, 20)
    assert admission.used_bytes == 520
    admission.hold(caller.ticket, 0)
    assert admission.used_bytes == 20
    caller.leave()
    assert admission.used_bytes == 0


def test_what_is_no_longer_held_makes_room():
    admission = make(4)
    holder, waiting = Caller(admission, "holder"), Caller(admission, "waiting").read()
    admission.hold(holder.ticket, WORK)
    assert waiting.work().works == 0
    admission.hold(holder.ticket, 0)
    assert waiting.works == 1


def test_nothing_is_accounted_to_a_call_that_has_left():
    admission = make(2)
    caller = Caller(admission).read()
    caller.leave()
    caller.read()
    caller.work()
    admission.arrive(caller.ticket, 10)
    admission.receive(caller.ticket, 10)
    admission.keep(caller.ticket, 10)
    admission.hold(caller.ticket, 10)
    assert (caller.started, caller.works, admission.used_bytes, admission.is_idle) == (1, 0, 0, True)


def test_what_does_not_fit_is_not_held():
    admission = make(4)
    other, caller = Caller(admission, "other"), Caller(admission)
    admission.hold(other.ticket, 10)
    admission.hold(caller.ticket, 100)
    with pytest.raises(LimitError) as caught:
        admission.hold(caller.ticket, 4 * MESSAGE)
    assert (caught.value.reason, admission.used_bytes) == (Reason.SERVER_BUSY, 110)


def test_a_lone_call_may_hold_the_most_that_one_can():
    admission = make(3)
    caller = Caller(admission)
    admission.hold(caller.ticket, 4 * MESSAGE)
    assert (caller.read().started, admission.used_bytes) == (1, 5 * MESSAGE)


def test_a_call_above_the_number_of_calls_is_refused():
    admission = make(100, max_calls=2)
    first = Caller(admission)
    Caller(admission)
    with pytest.raises(LimitError) as caught:
        Caller(admission)
    assert caught.value.reason == Reason.SERVER_BUSY
    first.leave()
    Caller(admission)


def test_when_most_places_are_taken_a_connection_has_only_a_few():
    admission = make(100, max_calls=100)
    for number in range(75):
        Caller(admission, f"hostile {number % 3}")
    with pytest.raises(LimitError) as caught:
        Caller(admission, "hostile 0")
    assert caught.value.reason == Reason.SERVER_BUSY
    polite = [Caller(admission, "polite") for _ in range(module.CROWDED_CALLS)]
    with pytest.raises(LimitError):
        Caller(admission, "polite")
    polite[0].leave()
    Caller(admission, "polite")


def test_a_call_whose_connection_is_known_later_counts_for_it():
    admission = make(100, max_calls=100)
    for _ in range(75):
        Caller(admission, "hostile")
    late = Ticket(lambda: None, lambda _: None)
    admission.enter(late)
    with pytest.raises(LimitError):
        admission.identify(late, "hostile")
    admission.leave(late)
    assert Caller(admission, "polite").read().started == 1


def test_a_call_without_progress_is_given_up(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    stalled, other = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += 4
    admission.receive(other.ticket, 1)
    clock[0] += 1.5
    admission.sweep()
    assert ([error.reason for error in stalled.refusals], other.refusals) == ([Reason.STALLED], [])


def test_a_call_within_its_time_is_left_alone(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    caller = Caller(admission).read()
    clock[0] += 4.9
    admission.sweep()
    assert caller.refusals == []


def test_a_trickle_is_given_up_also_when_nobody_waits(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    trickle = Caller(admission).read()
    for _ in range(4):
        clock[0] += 1.5
        admission.receive(trickle.ticket, 1, moved=100)
        trickle.read()
        admission.sweep()
    assert [error.reason for error in trickle.refusals] == [Reason.STALLED]


def test_a_stream_above_the_pace_is_left_alone(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    steady = Caller(admission).read()
    for _ in range(40):
        clock[0] += 1.5
        admission.receive(steady.ticket, 1, moved=int(1.6 * module.TRICKLE_BYTES_PER_SECOND))
        steady.read()
        admission.sweep()
    assert steady.refusals == []


def test_progress_is_not_saved_up(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    caller = Caller(admission).read()
    admission.receive(caller.ticket, 1, moved=100 * module.TRICKLE_BYTES_PER_SECOND)
    clock[0] += 5.1
    admission.sweep()
    assert [error.reason for error in caller.refusals] == [Reason.STALLED]


def test_to_wait_for_room_is_no_progress_and_no_standstill(clock: list[float]):
    admission = make(1, stall_seconds=5.0)
    first, second = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += 1.9
    first.leave()
    assert second.started == 1
    clock[0] += 4.9
    admission.sweep()
    assert second.refusals == []
    clock[0] += 0.2
    admission.sweep()
    assert [error.reason for error in second.refusals] == [Reason.STALLED]


def test_while_others_wait_a_call_without_progress_is_given_up_sooner(clock: list[float]):
    admission = make(1, stall_seconds=30.0)
    stalled = Caller(admission, "a").read()
    clock[0] += module.MIN_PRESSURE_SECONDS - 0.1
    waiting = Caller(admission, "b").read()
    admission.sweep()
    assert stalled.refusals == []
    clock[0] += 0.2
    admission.sweep()
    assert ([error.reason for error in stalled.refusals], waiting.refusals) == ([Reason.STALLED], [])
    stalled.leave()
    assert waiting.started == 1


def test_who_waits_for_its_own_share_has_nobody_else_given_up(clock: list[float]):
    admission = make(100, stall_seconds=30.0)
    slow = Caller(admission, "slow").read()
    silent = [Caller(admission, "silent").read() for _ in range(module.MAX_READS + 1)]
    clock[0] += module.MIN_PRESSURE_SECONDS + 0.1
    admission.sweep()
    assert ([len(caller.refusals) for caller in silent], slow.refusals) == ([1] * (module.MAX_READS + 1), [])


def test_where_threads_run_short_connections_that_hold_more_than_their_part_are_given_up(clock: list[float]):
    admission = make(100)
    admission.limit_threads(8, lambda: True)
    greedy = [Caller(admission, "greedy").read() for _ in range(7)]
    modest = Caller(admission, "modest").read()
    clock[0] += module.SHORT_SECONDS + 0.01
    admission.sweep()
    assert ([len(caller.refusals) for caller in greedy], modest.refusals) == ([1] * 7, [])


def test_the_largest_message_has_time_to_arrive_while_others_wait(clock: list[float]):
    size = 100 * module.MIN_BYTES_PER_SECOND
    admission = make(1, stall_seconds=3000.0, message=size)
    slow, _ = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += 99
    admission.sweep()
    assert slow.refusals == []
    clock[0] += 2
    admission.sweep()
    assert [error.reason for error in slow.refusals] == [Reason.STALLED]


def test_a_call_that_waits_too_long_is_refused_and_forgotten(clock: list[float]):
    admission = make(1)
    running, waiting, next_one = Caller(admission, "a").read(), Caller(admission, "b").read(), Caller(admission, "c")
    clock[0] += module.MIN_PRESSURE_SECONDS + 0.1
    admission.arrive(running.ticket, MESSAGE)
    next_one.read()
    admission.sweep()
    assert [error.reason for error in waiting.refusals] == [Reason.SERVER_BUSY]
    running.leave()
    assert (waiting.started, next_one.started) == (0, 1)


def test_a_refusal_for_want_of_room_may_be_repeated(clock: list[float]):
    admission = make(1)
    running, waiting = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += module.MIN_PRESSURE_SECONDS + 0.1
    admission.sweep()
    assert {running.refusals[0].reason, waiting.refusals[0].reason} == {Reason.STALLED, Reason.SERVER_BUSY}
    assert admission.used_bytes == MESSAGE
    for caller in (waiting, running, waiting):
        caller.leave()
    assert (admission.used_bytes, admission.is_idle) == (0, True)


def test_a_call_that_cannot_begin_keeps_no_other_from_it():
    admission = make(1)
    running = Caller(admission, "a").read()

    def fail() -> None:
        message = "a bug"
        raise RuntimeError(message)

    broken = Ticket(fail, lambda _: None)
    admission.enter(broken, "b")
    admission.read(broken)
    waiting = Caller(admission, "c").read()
    running.leave()
    admission.leave(broken)
    assert waiting.started == 1


def test_what_waits_for_an_idle_connection_is_done_when_its_calls_have_left():
    admission, done = make(8), list[str]()

    def note() -> bool:
        done.append("done")
        return True

    running = Caller(admission).read()
    admission.do_if_idle("a", note)
    later, other = Caller(admission).read(), Caller(admission, "b").read()
    assert (done, later.started, other.started) == ([], 0, 1)
    running.leave()
    admission.do_if_idle("a", note)
    assert (done, later.started) == (["done"], 1)


def test_a_call_under_way_goes_on_while_something_waits_for_an_idle_connection():
    admission = make(8)
    running = Caller(admission).read()
    admission.do_if_idle("a", lambda: True)
    admission.receive(running.ticket, 1)
    assert running.read().started == 2


def test_calls_that_waited_in_vain_are_resumed():
    admission = make(8)
    Caller(admission).read()
    admission.do_if_idle("a", lambda: True)
    waiting, left = Caller(admission).read(), Caller(admission).read()
    left.leave()
    admission.resume()
    assert (waiting.started, left.started, Caller(admission).read().started) == (1, 0, 1)


def test_what_could_not_be_done_is_tried_again():
    admission = make(8)
    admission.do_if_idle("a", lambda: False)
    waiting = Caller(admission).read()
    assert waiting.started == 0
    admission.do_if_idle("a", lambda: True)
    assert waiting.started == 1
