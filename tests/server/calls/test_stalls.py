"""The budget by itself: who is given up, and when."""

import time
from collections.abc import Iterator

import pytest

from admission_calls import MESSAGE, Caller, make
from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls import admission as admission_module
from tensor_reshape.server.calls.admission import Admission
from tensor_reshape.server.calls.budgets import MAX_READS
from tensor_reshape.server.calls.lifecycle import TRICKLE_BYTES_PER_SECOND
from tensor_reshape.server.calls.stalls import MIN_BYTES_PER_SECOND, MIN_PRESSURE_SECONDS, SHORT_SECONDS


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The time, which stands still until a test sets it."""
    now = [1000.0]
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: now[0])})
    monkeypatch.setattr(admission_module, "time", clock)
    yield now
    assert time.monotonic() > 0


def test_a_call_without_progress_is_given_up(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    stalled, other = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += 4
    other.arrive(1).answer(1)
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
        trickle.arrive(100).answer(moved=100)
        admission.sweep()
    assert [error.reason for error in trickle.refusals] == [Reason.STALLED]


def test_a_stream_above_the_pace_is_left_alone(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    steady = Caller(admission).read()
    for _ in range(40):
        clock[0] += 1.5
        steady.arrive().answer(moved=int(1.6 * TRICKLE_BYTES_PER_SECOND))
        admission.sweep()
    assert steady.refusals == []


def test_progress_is_not_saved_up(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    caller = Caller(admission).read()
    caller.arrive().answer(moved=100 * TRICKLE_BYTES_PER_SECOND)
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
    clock[0] += MIN_PRESSURE_SECONDS - 0.1
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
    silent = [Caller(admission, "silent").read() for _ in range(MAX_READS + 1)]
    clock[0] += MIN_PRESSURE_SECONDS + 0.1
    admission.sweep()
    assert ([len(caller.refusals) for caller in silent], slow.refusals) == ([1] * (MAX_READS + 1), [])


def test_where_threads_run_short_connections_that_hold_more_than_their_part_are_given_up(clock: list[float]):
    admission = make(100)
    admission.limit_threads(8, lambda: True)
    greedy = [Caller(admission, "greedy").read() for _ in range(7)]
    modest = Caller(admission, "modest").read()
    clock[0] += SHORT_SECONDS + 0.01
    admission.sweep()
    assert ([len(caller.refusals) for caller in greedy], modest.refusals) == ([1] * 7, [])


def test_the_largest_message_has_time_to_arrive_while_others_wait(clock: list[float]):
    size = 100 * MIN_BYTES_PER_SECOND
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
    clock[0] += MIN_PRESSURE_SECONDS + 0.1
    running.arrive()
    next_one.read()
    admission.sweep()
    assert [error.reason for error in waiting.refusals] == [Reason.SERVER_BUSY]
    running.end().leave()
    assert (waiting.started, next_one.started) == (0, 1)


def test_a_refusal_for_want_of_room_may_be_repeated(clock: list[float]):
    admission = make(1)
    running, waiting = Caller(admission, "a").read(), Caller(admission, "b").read()
    clock[0] += MIN_PRESSURE_SECONDS + 0.1
    admission.sweep()
    assert {running.refusals[0].reason, waiting.refusals[0].reason} == {Reason.STALLED, Reason.SERVER_BUSY}
    assert admission.used_bytes == MESSAGE
    for caller in (waiting, running, waiting):
        caller.leave()
    assert (admission.used_bytes, admission.is_idle) == (0, True)


def fill_with_silence(admission: Admission) -> dict[str, list[Caller]]:
    """Has connections take all room to receive, the first ones the most of it."""
    return {
        peer: [caller for caller in (Caller(admission, peer).read() for _ in range(40)) if caller.started]
        for peer in (f"silent {number}" for number in range(16))
    }


def test_where_nothing_is_left_the_most_crowded_make_room_for_those_that_have_nothing(clock: list[float]):
    admission = make(24)
    silent = fill_with_silence(admission)
    polite = [Caller(admission, f"polite {number}").read() for number in range(2)]
    assert [caller.started for caller in polite] == [0, 0]
    clock[0] += SHORT_SECONDS + 0.01
    admission.sweep()
    given_up = [caller for callers in silent.values() for caller in callers if caller.refusals]
    assert {caller.life.peer for caller in given_up} == {"silent 0"}
    for caller in given_up:
        caller.leave()
    assert [caller.started for caller in polite] == [1, 1]


def test_a_connection_keeps_its_last_call_however_many_wait(clock: list[float]):
    admission = make(4)
    modest = [Caller(admission, f"modest {number}").read() for number in range(4)]
    for number in range(5):
        Caller(admission, f"late {number}").read()
    clock[0] += SHORT_SECONDS + 0.01
    admission.sweep()
    assert [caller.refusals for caller in modest] == [[], [], [], []]


def test_a_message_has_a_moment_to_arrive_before_it_makes_room(clock: list[float]):
    admission = make(4)
    crowded = [Caller(admission, "crowded").read() for _ in range(3)]
    for number in range(2):
        Caller(admission, f"late {number}").read()
    clock[0] += SHORT_SECONDS - 0.01
    admission.sweep()
    assert [caller.refusals for caller in crowded] == [[], [], []]


def test_what_this_server_works_on_is_not_given_up(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    caller = Caller(admission).read().arrive()
    clock[0] += 100
    admission.sweep()
    assert caller.refusals == []


def test_a_call_is_refused_once_and_cancelled_where_it_does_not_take_its_refusal_in_as_long_again(clock: list[float]):
    admission = make(4, stall_seconds=5.0)
    caller = Caller(admission).read()
    for seconds, refusals, cancels in ((5.1, 1, 0), (4.8, 1, 0), (0.3, 1, 1)):
        clock[0] += seconds
        admission.sweep()
        assert (len(caller.refusals), caller.cancels) == (refusals, cancels)


def test_calls_that_only_wait_for_a_thread_press_nobody(clock: list[float]):
    admission = make(8, stall_seconds=30.0)
    slow, queued = Caller(admission, "slow").read(), Caller(admission, "queued").read()
    queued.arrive().work()
    clock[0] += MIN_PRESSURE_SECONDS + 1
    admission.sweep()
    assert (slow.refusals, queued.refusals) == ([], [])
