"""Calls that are made again and again."""

import asyncio
import threading
import time
from itertools import chain, repeat

import pytest

from tensor_reshape.cli.loads import Pace, run_tasks, run_threads
from tensor_reshape.client import InvalidRequestError, Reason

REFUSAL = InvalidRequestError.of(Reason.NOT_DIVISIBLE, "no", "shape")


async def refuse_later() -> None:
    raise REFUSAL


def test_caller_of_a_closed_loop_waits_for_its_answer():
    places = threading.Semaphore(3)

    def call() -> None:
        assert places.acquire(blocking=False)
        time.sleep(0.001)
        places.release()

    done = run_threads(call, 3, Pace(0.1, None))
    assert (done.failed, done.missed, min(done.latencies) >= 1_000_000) == (0, 0, True)


def test_open_loop_makes_as_many_calls_as_are_due():
    calls: list[int] = []
    done = run_threads(lambda: calls.append(1), 2, Pace(0.2, 500))
    assert len(calls) == len(done.latencies)
    assert len(calls) + done.missed == 100  # missed only where the machine itself stood still


def test_call_of_an_open_loop_that_waits_for_a_caller_is_late():
    """One call of 100 ms holds up the next nine, which by themselves take none: a closed loop shows one slow call."""
    first = iter([0.1])
    done = run_threads(lambda: time.sleep(next(first, 0)), 1, Pace(0.2, 100))
    late = [latency for latency in done.latencies if latency > 15_000_000]
    assert len(late) + done.missed >= 8


def test_calls_that_a_slow_server_never_gets_are_missed():
    done = run_threads(lambda: time.sleep(0.05), 1, Pace(0.1, 1000))
    assert (done.missed > 90, len(done.latencies) + done.missed) == (True, 100)


def test_failed_calls_are_counted_with_their_first_error():
    errors = chain([REFUSAL], repeat(InvalidRequestError.of(Reason.NOT_DIVISIBLE, "again", "shape")))

    def refuse() -> None:
        raise next(errors)

    done = run_threads(refuse, 1, Pace(0.2, 50))
    assert (done.failed + done.missed, len(done.latencies)) == (10, 0)
    assert done.error is REFUSAL


async def test_tasks_do_the_same_as_threads():
    open_loop = await run_tasks(lambda: asyncio.sleep(0), 3, Pace(0.2, 500))
    failed = await run_tasks(refuse_later, 3, Pace(0.2, 50))
    closed = await run_tasks(lambda: asyncio.sleep(0.001), 3, Pace(0.1, None))
    assert (len(open_loop.latencies) + open_loop.missed, failed.failed + failed.missed) == (100, 10)
    assert failed.error is REFUSAL
    assert min(closed.latencies) >= 1_000_000
    with pytest.raises(ZeroDivisionError):  # a bug, and no failed call
        await run_tasks(lambda: asyncio.sleep(1 // 0), 1, Pace(0.1, None))
