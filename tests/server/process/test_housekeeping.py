"""Return of memory, and periodic tasks."""

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from tensor_reshape.runtime.allocators import release_freed_memory
from tensor_reshape.server.process.housekeeping import (
    CHECK_SECONDS,
    IDLE_SECONDS,
    KEPT_BYTES,
    QUIET_SECONDS,
    SWEEP_SECONDS,
    Housekeeper,
    MemoryReturner,
)

LOOKS = round(QUIET_SECONDS / CHECK_SECONDS)
QUIET_BYTES = 1000


def look_at(memory: MemoryReturner, used: list[int]) -> list[bool]:
    return [memory.check(bytes_now, number * CHECK_SECONDS) for number, bytes_now in enumerate(used)]


@pytest.fixture
def heavy() -> MemoryReturner:
    """A memory returner whose process has grown."""
    release_freed_memory()  # otherwise, the first return might have an effect
    memory = MemoryReturner(QUIET_BYTES)
    memory._base -= 2 * KEPT_BYTES
    return memory


def test_freed_memory_is_returned_after_a_quiet_period(heavy: MemoryReturner):
    assert look_at(heavy, [QUIET_BYTES] * LOOKS) == [False] * (LOOKS - 1) + [True]


def test_single_large_call_does_not_delay_the_return_of_memory(heavy: MemoryReturner):
    assert look_at(heavy, [QUIET_BYTES, QUIET_BYTES, QUIET_BYTES, 10**9, QUIET_BYTES] * (LOOKS // 5))[-1]


def test_freed_memory_is_kept_during_steady_large_traffic(heavy: MemoryReturner):
    assert not any(look_at(heavy, [10**9, 10**9, QUIET_BYTES] * LOOKS))


def test_freed_memory_is_not_returned_when_large_traffic_begins(heavy: MemoryReturner):
    assert not any(look_at(heavy, [0] * (LOOKS - 1) + [10**9] * LOOKS))


def test_memory_return_without_effect_is_not_repeated_soon(heavy: MemoryReturner):
    heavy._base -= 10**12
    assert sum(look_at(heavy, [0] * 5 * LOOKS)) == 1


def test_process_that_has_not_grown_returns_no_memory():
    assert not any(look_at(MemoryReturner(QUIET_BYTES), [0] * 2 * LOOKS))


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
    assert min(duty.await_count(3)) >= IDLE_SECONDS * 0.9
    keeper.stop()
