"""The memory of another process, as Linux accounts for it, and of a piece of work in this one."""

import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

_INTERVAL_SECONDS = 0.05


def read_memory(pid: int, name: str) -> int:
    """Returns VmRSS, or VmHWM: the most that it ever was; in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def measure_peak(work: Callable[[], object]) -> int:
    """Returns the most bytes that were allocated at one time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


class MemoryMeter:
    """Looks, on a thread of its own, what a process and its children take together while a block runs.

    Attributes:
        first: the bytes in memory before.
        peak: the most there were; pages that processes share count for each.
    """

    def __init__(self, pid: int) -> None:
        """Starts with `with`."""
        self._pid = pid
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory meter", daemon=True)
        self.first = self.peak = read_total_memory(pid)

    def __enter__(self) -> Self:
        """Starts the thread."""
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Ends it."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL_SECONDS):
            self.peak = max(self.peak, read_total_memory(self._pid))


def list_children(pid: int) -> list[int]:
    """Returns the processes that a process has started; none of one that has ended."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in texts for child in text.split()]


def read_total_memory(pid: int) -> int:
    """Returns the VmRSS of a process and its children together, in bytes; those that have ended count for nothing."""
    total = 0
    for process in (pid, *list_children(pid)):
        with suppress(OSError, StopIteration):
            total += read_memory(process, "VmRSS")
    return total
