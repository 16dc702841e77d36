"""Measures memory, threads and file descriptors of a process on Linux, and the memory that a function allocates."""

import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Generic, Self, TypeVar

_Sample = TypeVar("_Sample")
_LISTEN = "0A"  # a value of the state in /proc/net/tcp


class Sampler(Generic[_Sample]):
    """Takes samples on a separate thread while a block runs.

    Attributes:
        samples: the samples, from the beginning of the block to its end.
    """

    def __init__(self, take: Callable[[], _Sample], interval_seconds: float) -> None:
        """Starts with `with`.

        Args:
            take: returns a sample; the thread of the block also calls it.
            interval_seconds: time between two samples.
        """
        self.samples: list[_Sample] = []
        self._take = take
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self.samples.append(self._take())
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()
        # The block may have ended because the measured process has ended. That error must be shown instead of this one.
        with suppress(OSError):
            self.samples.append(self._take())

    def _run(self) -> None:
        with suppress(OSError):
            while not self._stopped.wait(self._interval_seconds):
                self.samples.append(self._take())


def read_memory(pid: int, name: str) -> int:
    """Returns VmRSS, or VmHWM (its maximum), in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def count_threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def count_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def read_descriptors(pid: int) -> dict[int, str]:
    """Returns the target of each descriptor of a process. Descriptors that are closed in between are skipped."""
    descriptors = dict[int, str]()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            descriptors[int(link.name)] = str(link.readlink())
    return descriptors


def list_ports(pid: int) -> list[int]:
    sockets = set(read_descriptors(pid).values())
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]]
    rows = [line.split() for line in lines]
    return [int(row[1].partition(":")[2], 16) for row in rows if row[3] == _LISTEN and f"socket:[{row[9]}]" in sockets]


def measure_peak(work: Callable[[], object]) -> int:
    """Returns the largest number of bytes that were allocated at one time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def list_children(pid: int) -> list[int]:
    """Returns the children of a process; none if it has ended."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def read_total_memory(pid: int) -> int:
    """Returns the sum of VmRSS of a process and its running children, in bytes."""
    total = 0
    for process in (pid, *list_children(pid)):
        with suppress(OSError, StopIteration):
            total += read_memory(process, "VmRSS")
    return total
