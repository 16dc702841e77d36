"""Sessions. A session has some clients that call at the same time, and measures the durations of their calls."""

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

from benchmarks.contestants import MIB, Cell

Array = npt.NDArray[Any]
Call = Callable[[], Any]
"""A connected client: makes one call, and returns the result."""

_HEAVY_BYTES = 64 * MIB
_ONE = 0x3F800000  # the bits of 1.0, so that the elements differ and none is a NaN or subnormal
_Times = tuple[float, float, list[float]]


@dataclass(frozen=True)
class Job:
    """The work of the clients. With a tensor, they send `array`, and receive its bytes in the shape `target`."""

    address: str
    cell: Cell

    @cached_property
    def array(self) -> Array:
        """An array of the cell's size whose elements all differ."""
        # Different elements reveal a chunk at the wrong offset.
        bits = np.arange(self.cell.size // 4, dtype=np.uint32)
        bits += _ONE
        return bits.view(np.float32)

    @property
    def target(self) -> tuple[int, int]:
        """The requested shape."""
        return (2, self.cell.size // 8)

    def check_shape(self, answer: object) -> None:
        """Raises ValueError if the answer to a shape query is not the requested shape."""
        if answer != self.target:
            message = f"the result is {answer}, not {self.target}"
            raise ValueError(message)

    def check(self, answer: Array) -> None:
        """Raises ValueError if the result is not the array in the requested shape, bit for bit."""
        if answer.shape != self.target or answer.dtype != np.float32:
            message = f"the result is {answer.dtype} {answer.shape}, not float32 {self.target}"
            raise ValueError(message)
        # The bits are compared as integers, because as floats -0.0 equals 0.0, and a NaN differs from itself.
        answer_bits = np.ascontiguousarray(answer).reshape(-1).view(np.uint32)
        if not np.array_equal(answer_bits, self.array.view(np.uint32)):
            message = "the result has other bytes"
            raise ValueError(message)


class Session(Protocol):
    """The connected clients of a job."""

    def check(self) -> None:
        """Makes one call and checks the result; if that is cheap, every client makes a call."""

    def run(self, seconds: float) -> dict[str, float]:
        """Makes at least one call with every client until the time is over; returns the result of `summarize`."""


class ThreadSession:
    """Clients that block, each on its own thread; `connect` decides what they share, such as a connection."""

    def __init__(self, job: Job, stack: ExitStack, connect: Callable[[], Call], check: Callable[[Any], None]) -> None:
        """Makes each client; the stack disconnects them, and `check` raises if a result is wrong."""
        self._check = check
        self._is_light = job.cell.size < _HEAVY_BYTES
        self._calls = [connect() for _ in range(job.cell.clients)]
        # Entered after the connections, so that no thread runs when the connections are closed.
        self._threads = stack.enter_context(ThreadPoolExecutor(job.cell.clients))

    def check(self) -> None:
        """Makes one call and checks the result; if that is cheap, every client makes a call."""
        self._check(self._calls[0]())
        if self._is_light:
            self.run(0)

    def run(self, seconds: float) -> dict[str, float]:
        """Makes calls with every client until the time is over."""
        # Threads start one after the other. Without a barrier, the first ones would be timed with fewer clients.
        barrier = threading.Barrier(len(self._calls))
        times = [*self._threads.map(partial(_repeat, seconds=seconds, barrier=barrier), self._calls)]
        # From the first begin to the last end, so the time in which only some of the clients call is included.
        begin, end = min(one[0] for one in times), max(one[1] for one in times)
        return summarize(begin, end, [latency for one in times for latency in one[2]])


def summarize(begin: float, end: float, latencies: Sequence[float]) -> dict[str, float]:
    """Returns the number of calls between two times, their median latency, and the 99th percentile."""
    ordered = sorted(latencies)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return {"calls": len(ordered), "begin": begin, "end": end, "p50": statistics.median(ordered), "p99": p99}


def _repeat(call: Call, seconds: float, barrier: threading.Barrier) -> _Times:
    latencies = []
    barrier.wait()
    begin = now = time.perf_counter()
    while True:  # the end of a call is the begin of the next, so each call reads the clock once
        call()
        before, now = now, time.perf_counter()
        latencies.append(now - before)
        if now - begin >= seconds:
            return begin, now, latencies
