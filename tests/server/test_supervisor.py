"""When a worker is killed, and when the next one is started: with time that the test lets pass."""

import errno
import signal

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.workers.slots import (
    BUSY_SECONDS,
    IDLE_SECONDS,
    PAUSES_SECONDS,
    SILENCE_SECONDS,
    STABLE_SECONDS,
    START_SECONDS,
    Seat,
    WorkerProcess,
)
from tensor_reshape.server.workers.worker import BEAT, LEAVING, REFUSAL, STOP_MARGIN_SECONDS, Order

TICK = 0.1
HANG_SECONDS = SILENCE_SECONDS + IDLE_SECONDS
ORDER = Order(
    number=1,
    config=Config(drain_seconds=1, grace_seconds=8),
    private_address="unix-abstract:none",
    log_format="text",
    log_level="info",
)


class FakeProcess(WorkerProcess):
    """A process that only keeps what is asked of it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.told = b""
        self.idle = True
        self.hurried = False
        self.signals: list[signal.Signals] = []

    def read(self) -> bytes:
        told, self.told = self.told, b""
        return told

    def is_idle(self) -> bool:
        return self.idle

    def hurry(self) -> None:
        self.hurried = True

    def kill(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def close(self, code: int | None = None) -> None:
        pass


class Room:
    """One seat, and the processes that have been started for it."""

    def __init__(self, *, full: bool = False) -> None:
        self.full = full
        self.processes: list[FakeProcess] = []
        self.seat = Seat(ORDER, self.spawn)
        self.seat.start()

    def spawn(self, order: Order) -> FakeProcess:
        assert order is ORDER
        if self.full:
            raise OSError(errno.EAGAIN, "no room")
        self.processes.append(FakeProcess(len(self.processes) + 1))
        return self.processes[-1]

    @property
    def process(self) -> FakeProcess:
        return self.processes[-1]

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / TICK)):
            self.seat.age(TICK)

    def tell(self, message: bytes) -> None:
        self.process.told += message
        self.seat.age(0)

    def live(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.tell(BEAT)
            self.wait(1)


@pytest.fixture
def room() -> Room:
    room = Room()
    room.tell(BEAT)
    return room


def test_a_worker_serves_when_it_says_so():
    room = Room()
    assert not room.seat.serves
    room.tell(BEAT)
    assert room.seat.serves


def test_a_worker_that_beats_is_left_alone(room: Room):
    room.live(3 * BUSY_SECONDS)
    assert not room.process.signals


def test_a_worker_that_neither_says_nor_does_anything_is_killed(room: Room):
    room.wait(HANG_SECONDS - 2 * TICK)
    assert not room.process.signals
    room.wait(4 * TICK)
    assert room.process.signals == [signal.SIGKILL]
    assert not room.seat.serves


def test_a_worker_that_is_silent_but_busy_is_left_alone(room: Room):
    room.process.idle = False
    room.wait(BUSY_SECONDS / 2)
    assert not room.process.signals
    assert room.seat.serves


def test_a_worker_that_is_busy_now_and_then_is_left_alone(room: Room):
    for _ in range(10):
        room.wait(HANG_SECONDS - 3 * TICK)
        room.process.idle = False
        room.wait(TICK)
        room.process.idle = True
        room.wait(IDLE_SECONDS - 3 * TICK)
        room.tell(BEAT)
    assert not room.process.signals


def test_a_worker_is_not_busy_for_ever(room: Room):
    room.process.idle = False
    room.wait(BUSY_SECONDS + 2 * TICK)
    assert room.process.signals == [signal.SIGKILL]


def test_a_worker_has_time_to_start():
    room = Room()
    room.wait(START_SECONDS - 2 * TICK)
    assert not room.process.signals
    room.wait(4 * TICK)
    assert room.process.signals == [signal.SIGKILL]


def test_a_worker_that_leaves_has_time_for_the_calls_under_way(room: Room):
    room.tell(LEAVING)
    assert not room.seat.serves
    room.tell(BEAT)
    room.wait(1 + 8)
    assert not room.process.signals
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.signals == [signal.SIGKILL]


def test_a_worker_that_outlasts_the_grace_is_killed(room: Room):
    room.seat.stop()
    room.wait(1 + 8)
    assert room.process.signals == [signal.SIGTERM]
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.signals == [signal.SIGTERM, signal.SIGKILL]


def test_a_worker_that_does_not_hurry_is_killed(room: Room):
    room.seat.stop()
    room.seat.hurry()
    assert room.process.hurried
    room.wait(STOP_MARGIN_SECONDS + 2 * TICK)
    assert room.process.signals == [signal.SIGTERM, signal.SIGKILL]


def test_who_is_to_stop_has_no_successor(room: Room):
    room.seat.stop()
    room.seat.end(0)
    room.wait(100)
    assert room.seat.pid is None
    assert len(room.processes) == 1


def test_no_worker_is_started_between_the_end_of_one_and_the_stop(room: Room):
    room.seat.end(1)
    room.seat.stop()
    room.wait(100)
    assert len(room.processes) == 1


def test_a_worker_that_ends_is_replaced_at_once(room: Room):
    room.seat.end(-signal.SIGKILL)
    room.wait(TICK)
    assert room.seat.pid == 2


def test_workers_that_die_young_are_replaced_less_and_less_often(room: Room):
    for pause in (*PAUSES_SECONDS[1:], PAUSES_SECONDS[-1]):
        room.seat.end(1)
        room.wait(TICK)
        if pause == PAUSES_SECONDS[1]:
            room.seat.end(1)
        count = len(room.processes)
        room.wait(pause - 3 * TICK)
        assert len(room.processes) == count
        room.wait(4 * TICK)
        assert len(room.processes) == count + 1


def test_a_worker_that_has_lived_is_replaced_at_once(room: Room):
    for _ in range(3):
        room.seat.end(1)
        room.wait(PAUSES_SECONDS[-1])
    room.live(STABLE_SECONDS)
    room.seat.end(1)
    count = len(room.processes)
    room.wait(TICK)
    assert len(room.processes) == count + 1


def test_what_a_worker_says_at_its_end_is_heard():
    room = Room()
    room.process.told = REFUSAL + b"cannot listen"
    room.seat.end(1)
    assert room.seat.refusal == "cannot listen"


def test_a_system_without_room_is_asked_again():
    room = Room(full=True)
    room.full = False
    room.wait(TICK)
    assert room.seat.pid == 1
