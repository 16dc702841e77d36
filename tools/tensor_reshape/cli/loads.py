"""Calls that are made again and again for some seconds, and how long each of them took.

Laws:

- A closed loop: each caller waits for its answer, then asks again. While an answer is slow, what would have been asked
  meanwhile is not asked, and so in no latency (coordinated omission): it tells what a server can do, not what callers
  of a busy one wait.
- An open loop (`rate`): each call is due at a time of its own, whatever became of those before, and its latency counts
  from then. A call that no caller was free for in time waits, and the wait counts; what was never asked is `missed`.
- Nothing is kept of a call but eight bytes.
"""

import asyncio
import itertools
import threading
import time
from array import array
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tensor_reshape.rules.errors import TensorReshapeError

_NANOSECONDS = 10**9
_GRACE = 1.0
"""How much longer than a round its last calls are waited for, in rounds: a server that is far too slow ends it."""


class Pace:
    """When calls are due in one round. Threads share it."""

    def __init__(self, seconds: float, rate: float | None) -> None:
        """Begins the round now: for so long, with so many calls a second, or as many as come (None)."""
        self.start = time.perf_counter_ns()
        self._end = self.start + int(seconds * _NANOSECONDS)
        self._patience = self._end + int(seconds * _GRACE * _NANOSECONDS)
        self._interval = None if rate is None else _NANOSECONDS / rate
        self._numbers = itertools.count()  # next() of it is one step: no two threads get the same number
        self.planned = 0 if rate is None else int(seconds * rate)

    def take(self) -> int | None:
        """Returns when the next call is due; None: the round is over."""
        now = time.perf_counter_ns()
        if self._interval is None:
            return now if now < self._end else None
        due = self.start + int(next(self._numbers) * self._interval)
        return due if due < self._end and now < self._patience else None


@dataclass
class Round:
    """What became of the calls of one round.

    Attributes:
        latencies: of those that were answered, in nanoseconds.
        seconds: from the first to the end of the last.
        missed: how many were due, and never made.
        failed: how many ended in an error.
        error: the first of these.
    """

    latencies: "array[int]" = field(default_factory=lambda: array("q"))
    seconds: float = 0.0
    missed: int = 0
    failed: int = 0
    error: TensorReshapeError | None = None

    def note(self, due: int) -> None:
        """Notes an answer."""
        self.latencies.append(time.perf_counter_ns() - due)

    def note_failure(self, error: TensorReshapeError) -> None:
        """Notes an error."""
        self.failed += 1
        self.error = self.error or error


def run_threads(call: Callable[[], object], callers: int, pace: Pace) -> Round:
    """Has so many threads make a call."""
    parts = [Round() for _ in range(callers)]

    def run(part: Round) -> None:
        while (due := pace.take()) is not None:
            time.sleep(max(due - time.perf_counter_ns(), 0) / _NANOSECONDS)
            try:
                call()
            except TensorReshapeError as error:
                part.note_failure(error)
            else:
                part.note(due)

    # Daemons: Ctrl-C ends the command, not the round.
    threads = [threading.Thread(target=run, args=(part,), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _join(parts, pace)


async def run_tasks(call: Callable[[], Awaitable[object]], callers: int, pace: Pace) -> Round:
    """Has so many tasks of one thread make a call."""
    whole = Round()

    async def run() -> None:
        while (due := pace.take()) is not None:
            await asyncio.sleep(max(due - time.perf_counter_ns(), 0) / _NANOSECONDS)
            try:
                await call()
            except TensorReshapeError as error:
                whole.note_failure(error)
            else:
                whole.note(due)

    await asyncio.gather(*(run() for _ in range(callers)))
    return _join([whole], pace)


def _join(parts: list[Round], pace: Pace) -> Round:
    whole = Round(seconds=(time.perf_counter_ns() - pace.start) / _NANOSECONDS)
    for part in parts:
        whole.latencies.extend(part.latencies)
        whole.failed += part.failed
        whole.error = whole.error or part.error
    whole.missed = max(0, pace.planned - len(whole.latencies) - whole.failed)
    return whole
