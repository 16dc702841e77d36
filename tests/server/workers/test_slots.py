"""The times at which a worker is killed and the next one is started; the test lets time pass."""

import signal

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
# The next state for each state (a row) and each event (a column); a dot: no change.
TABLE = """
                BEAT     LEAVE    EXIT         DEADLINE        IDLE    STOP      HURRY
BACKING_OFF     .        .        .            STARTING        .       STOPPED   .
STARTING        SERVING  LEAVING  BACKING_OFF  KILLED          .       STOPPING  .
SERVING         SERVING  LEAVING  BACKING_OFF  SILENT          .       STOPPING  .
SILENT          SERVING  LEAVING  BACKING_OFF  KILLED          KILLED  STOPPING  .
LEAVING         .        .        BACKING_OFF  KILLED          .       STOPPING  .
KILLED          .        .        BACKING_OFF  .               .       STOPPING  .
STOPPING        .        .        STOPPED      KILLED_AT_STOP  .       .         HURRYING
HURRYING        .        .        STOPPED      KILLED_AT_STOP  .       .         .
KILLED_AT_STOP  .        .        STOPPED      .               .       .         .
STOPPED         .        .        .            .               .       .         .
"""
EVENTS, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
MOVES = [(State[row[0]], Event[event], cell) for row in ROWS for event, cell in zip(EVENTS, row[1:], strict=True)]
# The events that lead to each state.
WAYS: dict[State, tuple[Event, ...]] = {
    State.STARTING: (),
    State.SERVING: (Event.BEAT,),
    State.SILENT: (Event.BEAT, Event.DEADLINE),
    State.LEAVING: (Event.LEAVE,),
    State.KILLED: (Event.DEADLINE,),
    State.BACKING_OFF: (Event.EXIT, Event.DEADLINE, Event.EXIT),
    State.STOPPING: (Event.STOP,),
    State.HURRYING: (Event.STOP, Event.HURRY),
    State.KILLED_AT_STOP: (Event.STOP, Event.DEADLINE),
    State.STOPPED: (Event.STOP, Event.EXIT),
}


@pytest.fixture
def room() -> Room:
    room = Room()
    room.send(BEAT)
    return room


def test_table_has_every_state_and_every_event():
    assert [row[0] for row in ROWS] == [state.name for state in State]
    assert [event.name for event in Event] == EVENTS


def reach(state: State) -> Room:
    room = Room()
    for event in WAYS[state]:
        room.handle(event)
    assert room.slot.state is state
    return room


def test_each_event_in_each_state_has_the_effect_of_the_table():
    for state, event, cell in MOVES:
        room = reach(state)
        room.handle(event)
        assert room.slot.state is (state if cell == "." else State[cell]), f"{event} in {state}"


def test_state_tells_whether_there_is_a_process_and_whether_it_serves():
    rooms = {state: reach(state) for state in State}
    assert {state for state, room in rooms.items() if room.slot.pid is None} == {State.BACKING_OFF, State.STOPPED}
    assert {state for state, room in rooms.items() if room.slot.serves} == {State.SERVING, State.SILENT}


def test_worker_that_beats_is_not_killed(room: Room):
    room.beat(3 * BUSY_SECONDS)
    assert not room.process.actions


def test_silent_idle_worker_is_killed(room: Room):
    room.wait(HANG_SECONDS - 2 * TICK)
    assert not room.process.actions
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGKILL"]


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
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_leaving_worker_has_time_for_its_calls(room: Room):
    room.send(LEAVING)
    room.send(BEAT)
    room.wait(1 + 8)
    assert not room.process.actions
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.actions == ["SIGKILL"]


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


def test_worker_that_ends_is_replaced_at_once(room: Room):
    room.slot.record_exit(-signal.SIGKILL)
    room.slot.advance(0)
    assert room.slot.pid == 2


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
