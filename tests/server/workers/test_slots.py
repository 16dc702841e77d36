"""The times at which a worker is killed and the next one is started; the test lets time pass."""

import pytest

from tensor_reshape.server.workers.messages import BEAT, LEAVING, REFUSAL, STOP_MARGIN_SECONDS
from tensor_reshape.server.workers.slots import (
    BACK_OFF_SECONDS,
    BUSY_SECONDS,
    IDLE_SECONDS,
    SILENCE_SECONDS,
    STABLE_SECONDS,
    START_SECONDS,
    Event,
    State,
)
from worker_slots import TICK, Room

HANG_SECONDS = SILENCE_SECONDS + IDLE_SECONDS
# The events that lead to each state with a worker that is not to end.
WAYS: dict[str, tuple[Event, ...]] = {
    "starting": (),
    "serving": (Event.BEAT,),
    "silent": (Event.BEAT, Event.DEADLINE),
    "leaving": (Event.LEAVE,),
    "killed": (Event.DEADLINE,),
}


def reach(state: str) -> Room:
    room = Room()
    for event in WAYS[state]:
        room.handle(event)
    return room


@pytest.fixture
def room() -> Room:
    room = Room()
    room.send(BEAT)
    return room


def test_worker_that_beats_is_not_killed(room: Room):
    room.beat(3 * BUSY_SECONDS)
    assert not room.process.actions
    assert room.slot.serves


def test_silent_idle_worker_is_killed(room: Room):
    room.wait(HANG_SECONDS - 2 * TICK)
    assert not room.process.actions
    room.wait(4 * TICK)
    room.send(LEAVING + BEAT)  # what it had sent before
    room.wait(BUSY_SECONDS)
    assert (room.process.actions, room.slot.serves) == (["SIGKILL"], False)


def test_silent_busy_worker_is_killed_after_a_longer_time(room: Room):
    room.process.idle = False
    room.wait(BUSY_SECONDS / 2)
    assert room.slot.serves
    room.wait(BUSY_SECONDS / 2 - TICK)
    assert not room.process.actions
    room.wait(3 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_worker_that_is_busy_between_its_heartbeats_is_not_killed(room: Room):
    for _ in range(10):
        room.wait(HANG_SECONDS - 3 * TICK)
        room.process.idle = False
        room.wait(TICK)
        room.process.idle = True
        room.wait(IDLE_SECONDS - 3 * TICK)
        room.send(BEAT)
    assert not room.process.actions


def test_silent_worker_that_is_busy_at_times_is_killed(room: Room):
    for number in range(round(BUSY_SECONDS / TICK) + 2):
        room.process.idle = number % 2 == 0
        room.wait(TICK)
    assert room.process.actions == ["SIGKILL"]


def test_heartbeat_counts_when_it_is_read_late(room: Room):
    room.process.sent = BEAT
    room.slot.advance(BUSY_SECONDS)
    assert room.slot.state is State.SERVING


def test_worker_that_does_not_start_is_killed():
    room = Room()
    room.wait(START_SECONDS - 2 * TICK)
    assert not room.process.actions
    assert not room.slot.serves
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_leaving_worker_has_time_for_its_calls():
    for state in ("starting", "serving", "silent"):
        room = reach(state)
        room.handle(Event.LEAVE)
        room.handle(Event.BEAT)
        assert not room.slot.serves, state
        room.wait(1 + 8)
        assert not room.process.actions, state
        room.handle(Event.LEAVE)  # which does not begin the time again
        room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
        assert room.process.actions == ["SIGKILL"], state


def test_worker_that_ends_is_replaced_unless_the_server_stops():
    for state in WAYS:
        room = reach(state)
        room.handle(Event.EXIT)
        room.slot.advance(BACK_OFF_SECONDS[0])
        assert room.slot.pid == 2, state

        for events in ((), (Event.HURRY,), (Event.DEADLINE,)):
            room = reach(state)
            room.slot.stop()
            assert room.process.actions[-1] == "SIGTERM", state
            for event in (*events, Event.EXIT, Event.EXIT):  # the second has no effect
                room.handle(event)
            assert (room.slot.state, room.slot.pid) == (State.STOPPED, None), state


def test_stopping_worker_is_killed_after_the_grace_period(room: Room):
    room.slot.stop()
    room.wait(1 + 8)
    assert room.process.actions == ["SIGTERM"]
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.actions == ["SIGTERM", "SIGKILL"]


def test_hurried_worker_is_killed_after_the_margin(room: Room):
    room.slot.stop()
    room.slot.hurry()
    room.wait(STOP_MARGIN_SECONDS - 2 * TICK)
    room.slot.hurry()  # which does not begin the margin again
    assert room.process.actions == ["SIGTERM", "hurry"]
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGTERM", "hurry", "SIGKILL"]


def test_workers_that_end_early_are_replaced_after_growing_pauses():
    room = Room()
    for seconds in (*BACK_OFF_SECONDS, BACK_OFF_SECONDS[-1]):
        room.slot.record_exit(1)
        count = len(room.processes)
        room.wait(seconds - 2 * TICK)
        assert len(room.processes) == count
        room.wait(4 * TICK)
        assert len(room.processes) == count + 1
    room.send(BEAT)
    room.beat(STABLE_SECONDS)  # after which the next one comes at once
    room.slot.record_exit(1)
    room.slot.advance(0)
    assert len(room.processes) == count + 2


def test_refusal_is_kept_until_the_next_worker_starts():
    room = Room()
    room.process.sent = REFUSAL + b"cannot listen"
    room.slot.record_exit(1)
    assert room.slot.refusal == "cannot listen"
    room.slot.advance(0)
    assert room.slot.refusal == ""


def test_start_is_tried_again_after_growing_pauses_when_it_fails():
    room = Room(full=True)
    assert room.slot.pid is None
    room.wait(sum(BACK_OFF_SECONDS))
    before = room.attempts
    room.wait(3 * BACK_OFF_SECONDS[-1])
    assert 1 <= room.attempts - before <= 3

    room = Room(full=True)
    room.full = False
    room.slot.advance(0)
    assert room.slot.pid == 1


def test_closed_slot_has_no_process(room: Room):
    room.slot.close()
    assert (room.process.actions, room.process.alive, room.slot.pid) == (["SIGKILL"], False, None)
