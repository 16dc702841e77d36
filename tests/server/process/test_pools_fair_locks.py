"""Threads that take turns, one at a time, in the order of arrival, slice by slice. Locks are independent."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

import pytest

from tensor_reshape.server.process import pools
from tensor_reshape.server.process.pools import SWITCH_SECONDS, FairLock
from waits import await_waiting

TIMEOUT = 20.0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> FairLock:
    monkeypatch.setattr(pools, "SLICE_SECONDS", 0.0)  # each slice ends at once
    return FairLock()


def start(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def work_in_turns(turns: FairLock, **slices: int) -> str:
    """Starts threads one after another, each with this number of slices; returns the order of the slices' threads."""
    steps: SimpleQueue[str] = SimpleQueue()

    def work(name: str) -> None:
        with turns:
            for _ in range(slices[name]):
                steps.put(name)
                turns.give_way()

    with turns:
        threads = []
        for count, name in enumerate(slices, 1):
            threads.append(start(partial(work, name)))
            await_waiting(turns, count)
    for thread in threads:
        thread.join(TIMEOUT)
    return "".join(steps.get(timeout=TIMEOUT) for _ in range(sum(slices.values())))


@pytest.mark.parametrize(
    ("slices", "order"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "abcd"),
        ({"a": 4, "b": 4}, "abababab"),
        ({"a": 6, "b": 6, "c": 2}, "abcabcabababab"),
    ],
)
def test_fair_lock_is_granted_to_threads_in_arrival_order(turns: FairLock, slices: dict[str, int], order: str):
    assert work_in_turns(turns, **slices) == order


def test_fair_lock_is_kept_until_the_time_slice_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pools, "SLICE_SECONDS", 1e9)
    turns, done = FairLock(), threading.Event()

    def take() -> None:
        with turns:
            done.set()

    with turns:
        thread = start(take)
        await_waiting(turns, 1)
        turns.give_way()
        assert not done.is_set()
    thread.join(TIMEOUT)
    assert done.is_set()


def test_thread_switch_interval_is_restored_after_the_last_fair_lock():
    before = sys.getswitchinterval()
    first, second = FairLock(), FairLock()
    first.__enter__()
    with second:
        first.__exit__()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.01)
    assert sys.getswitchinterval() == before


def test_fair_locks_do_not_block_each_other(turns: FairLock):
    other, done = FairLock(), threading.Event()

    def take() -> None:
        with other:
            done.set()

    with turns:
        start(take)
        assert done.wait(TIMEOUT)


def test_fair_lock_is_released_after_an_exception():
    turns = FairLock()
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"), turns:
            int("a bug")
