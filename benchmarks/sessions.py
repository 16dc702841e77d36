"""Sessions: some clients that call at once, and the times that their calls took."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.cells import MIB, Cell

Array = npt.NDArray[Any]
Call = Callable[[], Any]
"""A client, connected: asks once, and returns the answer."""

_HEAVY_BYTES = 64 * MIB
_ONE = 0x3F800000  # the bits of 1.0: the elements differ, and none is a NaN or subnormal
_Times = tuple[float, float, list[float]]


@dataclass(frozen=True)
class Job:
    """What the clients do; with a tensor: send `array`, and get its bytes back under the shape `target`."""

    address: str
    cell: Cell

    @cached_property
    def array(self) -> Array:
        """As large as the cell says; all elements differ."""
        # Elements that differ show a chunk that is in the wrong place.
        bits = np.arange(self.cell.size // 4, dtype=np.uint32)
        bits += _ONE
        return bits.view(np.float32)

    @property
    def target(self) -> tuple[int, int]:
        """The shape of the answer."""
        return (2, self.cell.size // 8)

    def check(self, answer: Array) -> None:
        """Raises ValueError where the answer is not the array under the target shape, bit for bit."""
        if answer.shape != self.target or answer.dtype != np.float32:
            message = f"the answer is {answer.dtype} {answer.shape}, not float32 {self.target}"
            raise ValueError(message)
        # As integers: floats would take -0.0 for 0.0, and a NaN for different from itself.
        answer_bits = np.ascontiguousarray(answer).reshape(-1).view(np.uint32)
        if not np.array_equal(answer_bits, self.array.view(np.uint32)):
            message = "the answer has other bytes"
            raise ValueError(message)


class Session(Protocol):
    """The clients of a job, connected."""

    def check(self) -> None:
        """Makes one call and raises where the answer is wrong; lets every client call once, where that costs little."""

    def run(self, seconds: float) -> dict[str, float]:
        """Lets every client call, at least once, until the time is over; returns what `summarize` does."""


class ThreadSession:
    """Clients that block, each in a thread of its own; what they share, a connection, `connect` knows."""

    def __init__(self, job: Job, stack: ExitStack, connect: Callable[[], Call], check: Callable[[Any], None]) -> None:
        """Makes each client; the stack disconnects them, and `check` raises where an answer is wrong."""
        self._check = check
        self._is_light = job.cell.size < _HEAVY_BYTES
        self._calls = [connect() for _ in range(job.cell.clients)]
        # Entered after the connections, so that no thread runs when they are closed.
        self._threads = stack.enter_context(ThreadPoolExecutor(job.cell.clients))

    def check(self) -> None:
        """Makes one call and checks the answer; lets every client call once, where that costs little."""
        self._check(self._calls[0]())
        if self._is_light:
            self.run(0)

    def run(self, seconds: float) -> dict[str, float]:
        """Lets every client call until the time is over."""
        # Threads start one after the other; without a barrier the first ones would be timed with fewer clients.
        barrier = threading.Barrier(len(self._calls))
        return _join([*self._threads.map(partial(_repeat, seconds=seconds, barrier=barrier), self._calls)])


def summarize(begin: float, end: float, latencies: Sequence[float]) -> dict[str, float]:
    """Returns how many calls were made between two moments, their median latency and the 99th percentile."""
    ordered = sorted(latencies)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"calls": len(ordered), "begin": begin, "end": end, "p50": statistics.median(ordered), "p99": p99}


def _join(times: Sequence[_Times]) -> dict[str, float]:
    # From the first begin to the last end: the time in which some of the clients still call, or call already, counts.
    begin, end = min(one[0] for one in times), max(one[1] for one in times)
    return summarize(begin, end, [latency for one in times for latency in one[2]])


def _repeat(call: Call, seconds: float, barrier: threading.Barrier) -> _Times:
    latencies = []
    barrier.wait()
    begin = now = time.perf_counter()
    while True:  # the end of a call is the begin of the next: one look at the clock for each
        call()
        before, now = now, time.perf_counter()
        latencies.append(now - before)
        if now - begin >= seconds:
            return begin, now, latencies
