"""The memory of another process, as Linux accounts for it, and of a piece of work in this one."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path


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
