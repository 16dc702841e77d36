"""Slots of workers. The test advances the time."""

import pytest

from tensor_reshape.server.workers.messages import BEAT, LEAVING, REJECTION, STOP_MARGIN_SECONDS
from tensor_reshape.server.workers.slots import BACK_OFF_SECONDS, HANG_SECONDS, STABLE_SECONDS, START_SECONDS, State
from worker_slots import TICK, Room

STOP_SECONDS = 1 + 8 + STOP_MARGIN_SECONDS  # for the order in `worker_slots`


@pytest.fixture
def room() -> Room:
    """A slot whose worker serves."""
    room = Room()
    room.send(BEAT)
    return room


def kill(room: Room, seconds: float) -> None:
    """Checks that the worker is killed after these seconds, and not earlier."""
    before = list(room.process.actions)
    room.wait(seconds - 2 * TICK)
    assert room.process.actions == before
    room.wait(4 * TICK)
    assert room.process.actions == [*before, "SIGKILL"]


def test_worker_with_heartbeats_is_not_killed(room: Room):
    room.beat(10 * HANG_SECONDS)
    assert not room.process.actions
    assert room.slot.serves


def test_worker_without_heartbeats_is_killed(room: Room):
    kill(room, HANG_SECONDS)
    room.send(LEAVING + BEAT)  # the messages before the stop
    room.wait(10 * HANG_SECONDS)
    assert (room.process.actions, room.slot.serves, room.slot.hangs) == (["SIGKILL"], False, 1)


def test_worker_heartbeat_that_is_read_late_counts(room: Room):
    room.process.sent = BEAT
    room.slot.advance(10 * HANG_SECONDS)
    assert room.slot.state is State.SERVING


def test_worker_that_hangs_at_start_is_killed():
    room = Room()
    assert not room.slot.serves
    kill(room, START_SECONDS)
    assert room.slot.hangs == 0


@pytest.mark.parametrize("sent", [b"", BEAT])
def test_worker_that_announces_its_exit_gets_time_before_replacement(sent: bytes):
    room = Room()
    room.send(sent)
    room.send(LEAVING)
    room.send(BEAT)
    assert not room.slot.serves
    room.wait(1)
    room.send(LEAVING)  # does not restart the time
    kill(room, STOP_SECONDS - 1)
    room.exit()
    room.slot.advance(BACK_OFF_SECONDS[0])
    assert room.slot.pid == 2


@pytest.mark.parametrize("sent", [b"", BEAT, LEAVING])
def test_exited_worker_is_replaced_unless_the_server_stops(sent: bytes):
    room = Room()
    room.send(sent)
    room.exit()
    room.slot.advance(BACK_OFF_SECONDS[0])
    assert len(room.processes) == 2

    room.send(sent)
    room.slot.stop()
    assert room.process.actions == ["SIGTERM"]
    room.exit()
    room.wait(sum(BACK_OFF_SECONDS))
    assert (room.slot.pid, len(room.processes)) == (None, 2)


def test_supervisor_starts_no_worker_after_a_stop(room: Room):
    room.exit()
    room.slot.stop()
    room.slot.hurry()
    room.wait(sum(BACK_OFF_SECONDS))
    assert (room.slot.pid, room.slot.state, len(room.processes)) == (None, State.STOPPING, 1)


def test_stopping_worker_is_killed_after_the_grace_period(room: Room):
    room.slot.stop()
    kill(room, STOP_SECONDS)


def test_worker_that_ignores_a_second_signal_is_killed(room: Room):
    room.slot.stop()
    room.slot.hurry()
    room.wait(STOP_MARGIN_SECONDS / 2)
    room.slot.hurry()  # does not restart the margin
    assert room.process.actions == ["SIGTERM", "hurry", "hurry"]
    kill(room, STOP_MARGIN_SECONDS / 2)


def test_early_worker_exits_increase_the_restart_delay():
    room = Room()
    for seconds in (*BACK_OFF_SECONDS, BACK_OFF_SECONDS[-1]):
        room.exit()
        count = len(room.processes)
        room.wait(seconds - 2 * TICK)
        assert len(room.processes) == count
        room.wait(4 * TICK)
        assert len(room.processes) == count + 1
    room.beat(STABLE_SECONDS)  # after this time, the next worker starts at once
    room.exit()
    room.slot.advance(0)
    assert len(room.processes) == count + 2


def test_worker_start_error_is_kept_until_the_next_start():
    room = Room()
    room.process.sent = REJECTION + b"cannot listen"
    room.exit()
    assert room.slot.rejection == "cannot listen"
    room.slot.advance(0)
    assert room.slot.rejection == ""


def test_failed_worker_starts_are_retried_with_increasing_delay():
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


def test_closing_a_worker_slot_kills_its_process(room: Room):
    room.slot.close()
    assert (room.process.actions, room.process.is_closed, room.slot.pid) == (["SIGKILL"], True, None)
