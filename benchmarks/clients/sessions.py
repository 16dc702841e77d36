"""Sessions: some clients that call at once, and the times that their calls took."""

import asyncio
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
_HEAVY_BYTES = 64 * 1024 * 1024
_ONE = 0x3F800000  # the bits of 1.0: the elements differ, and none is a NaN or subnormal


@dataclass(frozen=True, slots=True)
class Job:
    """What the clients do: send `array`, get its bytes back under the shape `target`."""

    address: str
    array: Array
    target: tuple[int, int]
    clients: int

    @classmethod
    def of(cls, address: str, size: int, clients: int) -> "Job":
        """Makes an array of `size` bytes, all of whose elements differ."""
        count = size // 4
        bits = np.arange(count, dtype=np.uint32)
        bits += _ONE
        return cls(address, bits.view(np.float32), (2, count // 2), clients)

    @property
    def host(self) -> str:
        """The address without its port."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of a TCP address."""
        return int(self.address.rpartition(":")[2])

    @property
    def path(self) -> str | None:
        """The path of a unix socket, None for TCP."""
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else None

    @property
    def is_light(self) -> bool:
        """Whether every client calls once before anything is timed."""
        return self.array.nbytes < _HEAVY_BYTES

    def check(self, answer: Array) -> None:
        """Raises ValueError where the answer is not the array under the target shape, bit for bit."""
        if answer.shape != self.target or answer.dtype != np.float32:
            message = f"the answer is {answer.dtype} {answer.shape}, not float32 {self.target}"
            raise ValueError(message)
        answer_bits = np.ascontiguousarray(answer).reshape(-1).view(np.uint32)
        if not np.array_equal(answer_bits, self.array.view(np.uint32)):
            message = "the answer has other bytes"
            raise ValueError(message)


class Session(Protocol):
    """The clients of a job, connected."""

    def check(self) -> None:
        """Makes one call and checks the answer; lets every client call once, where that costs little."""

    def run(self, seconds: float) -> tuple[float, Sequence[float]]:
        """Lets every client call, at least once, until the time is over; returns the time and that of each call."""

    def close(self) -> None:
        """Disconnects."""


class Connection(Protocol):
    """One client that blocks."""

    def call(self) -> Any:  # noqa: ANN401 - each peer's own
        """What is timed: sends the array and returns the answer."""

    def read(self, answer: Any) -> Array:  # noqa: ANN401 - each peer's own
        """Returns the array of an answer, to check it."""

    def close(self) -> None:
        """Disconnects."""


class ThreadSession:
    """Clients that block, each in a thread of its own."""

    def __init__(self, job: Job, open_connection: Callable[[], Connection]) -> None:
        """Opens a connection for each client."""
        self._job = job
        self._connections = [open_connection() for _ in range(job.clients)]
        self._threads = ThreadPoolExecutor(job.clients)

    def check(self) -> None:
        """Makes one call and checks the answer; lets every client call once, where that costs little."""
        first = self._connections[0]
        self._job.check(first.read(first.call()))
        if self._job.is_light:
            self.run(0)

    def run(self, seconds: float) -> tuple[float, list[float]]:
        """Lets every client call until the time is over."""
        barrier = threading.Barrier(len(self._connections))
        futures = [self._threads.submit(_repeat, one.call, seconds, barrier) for one in self._connections]
        return _join([future.result() for future in futures])

    def close(self) -> None:
        """Disconnects."""
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()


AsyncCall = Callable[[], Awaitable[Array]]
"""A client of an event loop: sends the array and returns the answer."""


class LoopSession:
    """Clients that are tasks of one event loop."""

    def __init__(
        self, job: Job, connect: Callable[[], Awaitable[tuple[AsyncCall, Callable[[], Awaitable[Any]]]]]
    ) -> None:
        """Connects: `connect` returns what calls, and what disconnects."""
        self._job = job
        self._runner = asyncio.Runner()
        self._call, self._disconnect = self._runner.run(_await(connect()))

    def check(self) -> None:
        """Makes one call and checks the answer; lets every client call once, where that costs little."""
        self._job.check(self._runner.run(_await(self._call())))
        if self._job.is_light:
            self.run(0)

    def run(self, seconds: float) -> tuple[float, list[float]]:
        """Lets every client call until the time is over."""
        return self._runner.run(self._run(seconds))

    def close(self) -> None:
        """Disconnects."""
        self._runner.run(_await(self._disconnect()))
        self._runner.close()

    async def _run(self, seconds: float) -> tuple[float, list[float]]:
        return _join(await asyncio.gather(*(_repeat_async(self._call, seconds) for _ in range(self._job.clients))))


def summarize(seconds: float, latencies: Sequence[float]) -> dict[str, float]:
    """Returns what a worker answers about a run."""
    ordered = sorted(latencies)
    return {
        "calls": len(ordered),
        "seconds": seconds,
        "p50": statistics.median(ordered),
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
    }


_Times = tuple[float, float, list[float]]


def _join(times: Sequence[_Times]) -> tuple[float, list[float]]:
    begin, end = min(one[0] for one in times), max(one[1] for one in times)
    return end - begin, [latency for one in times for latency in one[2]]


def _repeat(call: Callable[[], object], seconds: float, barrier: threading.Barrier) -> _Times:
    latencies = []
    barrier.wait()
    begin = now = time.perf_counter()
    while True:
        call()
        before, now = now, time.perf_counter()
        latencies.append(now - before)
        if now - begin >= seconds:
            return begin, now, latencies


async def _repeat_async(call: AsyncCall, seconds: float) -> _Times:
    latencies = []
    begin = now = time.perf_counter()
    while True:
        await call()
        before, now = now, time.perf_counter()
        latencies.append(now - before)
        if now - begin >= seconds:
            return begin, now, latencies


async def _await(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever is awaited
    return await awaitable
