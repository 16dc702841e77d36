"""Threads that take turns: one at a time, in the order of arrival, slice by slice; each lock for itself."""

import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from tensor_reshape.server.calls import fair_locks
from tensor_reshape.server.calls.fair_locks import SWITCH_SECONDS, FairLock
from waiting_threads import wait_for_waiting

TIMEOUT = 20.0


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> FairLock:
    monkeypatch.setattr(fair_locks, "SLICE_SECONDS", 0.0)  # each slice is over at once
    return FairLock()


def start(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_turns_are_taken_in_the_order_of_arrival(turns: FairLock):
    order: SimpleQueue[int] = SimpleQueue()

    def take(number: int) -> None:
        with turns:
            order.put(number)

    with turns:
        threads = []
        for number in range(5):
            threads.append(start(lambda number=number: take(number)))  # type: ignore[misc] # a default of a lambda
            wait_for_waiting(turns, number + 1)
    for thread in threads:
        thread.join(TIMEOUT)
    assert [order.get(timeout=TIMEOUT) for _ in range(5)] == list(range(5))


def test_two_that_give_way_alternate(turns: FairLock):
    steps: SimpleQueue[str] = SimpleQueue()

    def work(name: str) -> None:
        with turns:
            for _ in range(4):
                steps.put(name)
                turns.give_way()

    with turns:
        threads = []
        for count, name in enumerate("ab", 1):
            threads.append(start(lambda name=name: work(name)))  # type: ignore[misc] # a default of a lambda
            wait_for_waiting(turns, count)
    for thread in threads:
        thread.join(TIMEOUT)
    assert "".join(steps.get(timeout=TIMEOUT) for _ in range(8)) == "abababab"


def test_a_turn_is_kept_until_its_slice_is_over(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fair_locks, "SLICE_SECONDS", 1e9)
    turns, done = FairLock(), threading.Event()

    def take() -> None:
        with turns:
            done.set()

    with turns:
        thread = start(take)
        wait_for_waiting(turns, 1)
        turns.give_way()
        assert not done.is_set()
    thread.join(TIMEOUT)
    assert done.is_set()


def test_the_interpreter_switches_faster_while_a_turn_is_taken_alone():
    before = sys.getswitchinterval()
    turns = FairLock()
    with turns:
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.01)
    assert sys.getswitchinterval() == before


def test_the_interpreter_switches_faster_until_the_last_lock_is_free():
    before = sys.getswitchinterval()
    first, second = FairLock(), FairLock()
    first.__enter__()
    with second:
        first.__exit__()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS, rel=0.01)
    assert sys.getswitchinterval() == before


def test_a_lock_waits_for_no_other_one(turns: FairLock):
    other, done = FairLock(), threading.Event()

    def take() -> None:
        with other:
            done.set()

    with turns:
        start(take)
        assert done.wait(TIMEOUT)


def test_whoever_comes_last_has_a_turn_in_every_round(turns: FairLock):
    steps: SimpleQueue[str] = SimpleQueue()

    def work(name: str, slices: int) -> None:
        with turns:
            for _ in range(slices):
                steps.put(name)
                turns.give_way()

    with turns:
        threads = []
        for count, (name, slices) in enumerate({"a": 6, "b": 6, "c": 2}.items(), 1):
            threads.append(start(lambda name=name, slices=slices: work(name, slices)))  # type: ignore[misc] # defaults
            wait_for_waiting(turns, count)
    for thread in threads:
        thread.join(TIMEOUT)
    assert "".join(steps.get(timeout=TIMEOUT) for _ in range(14)) == "abcabcabababab"


def test_a_turn_that_ends_in_an_exception_is_handed_on():
    turns = FairLock()
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"), turns:
            int("a bug")
