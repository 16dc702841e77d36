"""Freed memory goes back to the system, and one duty does not stop another."""

import threading

import pytest

from tensor_reshape.server.process.housekeeping import (
    KEPT_BYTES,
    QUIET_SECONDS,
    SWEEP_SECONDS,
    Housekeeper,
    MemoryReturner,
)

LOOKS = round(QUIET_SECONDS / SWEEP_SECONDS)
QUIET_BYTES = 1000


def look_at(memory: MemoryReturner, used: list[int]) -> list[bool]:
    return [memory.look(bytes_now, number * SWEEP_SECONDS) for number, bytes_now in enumerate(used)]


@pytest.fixture
def heavy() -> MemoryReturner:
    """A returner whose process has grown."""
    memory = MemoryReturner(QUIET_BYTES)
    memory._base -= 2 * KEPT_BYTES
    return memory


def test_memory_is_returned_after_a_quiet_time(heavy: MemoryReturner):
    assert look_at(heavy, [QUIET_BYTES] * LOOKS) == [False] * (LOOKS - 1) + [True]


def test_short_large_call_does_not_end_the_quiet_time(heavy: MemoryReturner):
    assert look_at(heavy, [QUIET_BYTES, QUIET_BYTES, QUIET_BYTES, 10**9, QUIET_BYTES] * (LOOKS // 5))[-1]


def test_steady_large_traffic_keeps_its_memory(heavy: MemoryReturner):
    assert not any(look_at(heavy, [10**9, 10**9, QUIET_BYTES] * LOOKS))


def test_beginning_of_a_flood_is_not_quiet(heavy: MemoryReturner):
    assert not any(look_at(heavy, [0] * (LOOKS - 1) + [10**9] * LOOKS))


def test_return_without_effect_is_not_repeated_soon(heavy: MemoryReturner):
    heavy._base -= 10**12
    assert sum(look_at(heavy, [0] * 5 * LOOKS)) == 1


def test_process_that_has_not_grown_returns_nothing():
    assert not any(look_at(MemoryReturner(QUIET_BYTES), [0] * 2 * LOOKS))


def test_duty_that_fails_does_not_stop_the_others():
    done = threading.Event()

    def fail() -> None:
        message = "a bug"
        raise RuntimeError(message)

    keeper = Housekeeper((fail, done.set))
    keeper.start()
    assert done.wait(60)
    done.clear()
    assert done.wait(60)
    keeper.stop()
