"""When a worker is killed, and when the next one is started: with time that the test lets pass."""

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
# What becomes of each state (a row) by each event (a column); a dot: nothing changes.
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
# How each state is reached.
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


def test_the_table_names_every_state_and_every_event():
    assert [row[0] for row in ROWS] == [state.name for state in State]
    assert [event.name for event in Event] == EVENTS


@pytest.mark.parametrize(("state", "event", "cell"), MOVES, ids=lambda value: getattr(value, "name", value))
def test_each_event_in_each_state_does_what_the_table_says(state: State, event: Event, cell: str):
    room = Room()
    for earlier in WAYS[state]:
        room.handle(earlier)
    assert room.slot.state is state
    room.handle(event)
    assert room.slot.state is (state if cell == "." else State[cell])


@pytest.mark.parametrize("state", State)
def test_there_is_a_process_in_every_state_but_two(state: State):
    room = Room()
    for event in WAYS[state]:
        room.handle(event)
    assert (room.slot.pid is None) == (state in {State.BACKING_OFF, State.STOPPED})


@pytest.mark.parametrize("state", State)
def test_a_worker_serves_from_its_first_heartbeat_until_it_is_to_end(state: State):
    room = Room()
    for event in WAYS[state]:
        room.handle(event)
    assert room.slot.serves == (state in {State.SERVING, State.SILENT})


def test_a_worker_that_beats_is_left_alone(room: Room):
    room.beat(3 * BUSY_SECONDS)
    assert not room.process.actions


def test_a_worker_that_neither_says_nor_does_anything_is_killed(room: Room):
    room.wait(HANG_SECONDS - 2 * TICK)
    assert not room.process.actions
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_a_worker_that_is_silent_but_busy_is_left_alone(room: Room):
    room.process.idle = False
    room.wait(BUSY_SECONDS / 2)
    assert not room.process.actions
    assert room.slot.serves


def test_a_worker_that_is_busy_now_and_then_is_left_alone(room: Room):
    for _ in range(10):
        room.wait(HANG_SECONDS - 3 * TICK)
        room.process.idle = False
        room.wait(TICK)
        room.process.idle = True
        room.wait(IDLE_SECONDS - 3 * TICK)
        room.send(BEAT)
    assert not room.process.actions


def test_a_worker_is_not_busy_for_ever(room: Room):
    room.process.idle = False
    room.wait(BUSY_SECONDS - TICK)
    assert not room.process.actions
    room.wait(3 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_a_worker_that_is_busy_now_and_then_is_not_left_alone_for_ever(room: Room):
    for number in range(round(BUSY_SECONDS / TICK) + 2):
        room.process.idle = number % 2 == 0
        room.wait(TICK)
    assert room.process.actions == ["SIGKILL"]


def test_a_heartbeat_that_was_in_time_counts_however_late_it_is_read(room: Room):
    room.process.sent = BEAT
    room.slot.advance(BUSY_SECONDS)
    assert room.slot.state is State.SERVING


def test_a_worker_has_time_to_start():
    room = Room()
    room.wait(START_SECONDS - 2 * TICK)
    assert not room.process.actions
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_a_worker_that_leaves_has_time_for_the_calls_under_way(room: Room):
    room.send(LEAVING)
    room.send(BEAT)
    room.wait(1 + 8)
    assert not room.process.actions
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.actions == ["SIGKILL"]


def test_a_worker_that_outlasts_the_grace_is_killed(room: Room):
    room.slot.stop()
    room.wait(1 + 8)
    assert room.process.actions == ["SIGTERM"]
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.actions == ["SIGTERM", "SIGKILL"]


def test_a_worker_that_does_not_hurry_is_killed(room: Room):
    room.slot.stop()
    room.slot.hurry()
    room.wait(STOP_MARGIN_SECONDS - 2 * TICK)
    assert room.process.actions == ["SIGTERM", "hurry"]
    room.wait(4 * TICK)
    assert room.process.actions == ["SIGTERM", "hurry", "SIGKILL"]


def test_who_hurries_for_ever_does_not_put_off_the_end(room: Room):
    room.slot.stop()
    for _ in range(round(STOP_MARGIN_SECONDS / TICK) + 2):
        room.slot.hurry()
        room.wait(TICK)
    assert room.process.actions == ["SIGTERM", "hurry", "SIGKILL"]


def test_who_is_to_stop_has_no_successor(room: Room):
    room.slot.stop()
    room.slot.record_exit(0)
    room.wait(100)
    assert len(room.processes) == 1


def test_no_worker_is_started_between_the_end_of_one_and_the_stop(room: Room):
    room.slot.record_exit(1)
    room.slot.stop()
    room.wait(100)
    assert len(room.processes) == 1


def test_a_worker_that_ends_is_replaced_at_once(room: Room):
    room.slot.record_exit(-signal.SIGKILL)
    room.slot.advance(0)
    assert room.slot.pid == 2


def test_workers_that_die_young_are_replaced_less_and_less_often():
    room = Room()
    for seconds in (*BACK_OFF_SECONDS, BACK_OFF_SECONDS[-1]):
        room.slot.record_exit(1)
        count = len(room.processes)
        room.wait(seconds - 2 * TICK)
        assert len(room.processes) == count
        room.wait(4 * TICK)
        assert len(room.processes) == count + 1


def test_a_worker_that_has_lived_is_replaced_at_once(room: Room):
    for _ in range(3):
        room.slot.record_exit(1)
        room.wait(BACK_OFF_SECONDS[-1])
    room.beat(STABLE_SECONDS)
    room.slot.record_exit(1)
    count = len(room.processes)
    room.slot.advance(0)
    assert len(room.processes) == count + 1


def test_what_a_worker_says_at_its_end_is_heard():
    room = Room()
    room.process.sent = REFUSAL + b"cannot listen"
    room.slot.record_exit(1)
    assert room.slot.refusal == "cannot listen"


def test_a_refusal_is_forgotten_when_the_next_worker_is_started():
    room = Room()
    room.process.sent = REFUSAL + b"cannot listen"
    room.slot.record_exit(1)
    room.slot.advance(0)
    assert room.slot.refusal == ""


def test_a_system_without_room_is_asked_again():
    room = Room(full=True)
    assert room.slot.pid is None
    room.full = False
    room.slot.advance(0)
    assert room.slot.pid == 1


def test_a_system_without_room_is_asked_less_and_less_often():
    room = Room(full=True)
    room.wait(sum(BACK_OFF_SECONDS))
    before = room.attempts
    room.wait(3 * BACK_OFF_SECONDS[-1])
    assert room.attempts - before <= 3


def test_closing_leaves_no_process(room: Room):
    room.slot.close()
    assert (room.process.actions, room.process.alive, room.slot.pid) == (["SIGKILL"], False, None)
