"""Return of memory, and periodic tasks."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tensor_reshape.server.process.housekeeping import (
    IDLE_SWEEP_SECONDS,
    KEPT_BYTES,
    SWEEP_SECONDS,
    Housekeeper,
    MemoryReturner,
)

QUIET_BYTES = 1000


@pytest.fixture
def memory() -> MemoryReturner:
    """A memory returner whose process has grown."""
    memory = MemoryReturner(QUIET_BYTES)
    memory._base -= 2 * KEPT_BYTES
    return memory


def test_freed_memory_is_returned_when_calls_need_little_memory(memory: MemoryReturner):
    assert memory.check(QUIET_BYTES)


def test_process_that_has_not_grown_returns_no_memory():
    assert not MemoryReturner(QUIET_BYTES).check(0)


def test_freed_memory_is_kept_while_calls_need_much_memory(memory: MemoryReturner):
    assert not memory.check(QUIET_BYTES + 1)


class Duty:
    """A task that records its times."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._news = threading.Condition()

    def __call__(self) -> None:
        with self._news:
            self.times.append(time.monotonic())
            self._news.notify_all()

    def await_count(self, count: int) -> list[float]:
        """Returns the seconds between `count` times."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.times) >= count, 60)
        return [after - before for before, after in pairwise(self.times[:count])]


def run(*duties: tuple[float, Callable[[], object]], is_idle: bool) -> Housekeeper:
    keeper = Housekeeper(lambda: is_idle)
    for seconds, do in duties:
        keeper.add(seconds, do)
    keeper.start()
    return keeper


def fail() -> None:
    message = "a bug"
    raise RuntimeError(message)


def test_failing_periodic_task_does_not_stop_other_tasks():
    duty = Duty()
    keeper = run((SWEEP_SECONDS, fail), (SWEEP_SECONDS, duty), is_idle=False)
    duty.await_count(2)
    keeper.stop()


def test_periodic_task_runs_at_its_interval():
    duty, often = Duty(), Duty()
    keeper = run((4 * SWEEP_SECONDS, duty), (SWEEP_SECONDS, often), is_idle=False)
    assert min(duty.await_count(3)) >= 4 * SWEEP_SECONDS
    keeper.stop()
    assert len(often.times) > len(duty.times)


def test_periodic_tasks_run_less_often_without_calls():
    duty = Duty()
    keeper = run((SWEEP_SECONDS, duty), is_idle=True)
    assert min(duty.await_count(3)) >= IDLE_SWEEP_SECONDS * 0.9
    keeper.stop()
