"""Measures memory, threads and file descriptors of a process on Linux, the work of a function, and a busy machine.

The lateness of a busy machine is the factor by which work takes longer than on a free core. If you run this module as a
program, it computes for a moment again and again until the end of its standard input. Each time it prints the time and
the lateness.
"""

import json
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import Generic, Self, TypeVar

from tensor_reshape.rules.errors import ReshapeError

_Sample = TypeVar("_Sample")
_LISTEN = "0A"  # a value of the state in /proc/net/tcp


class Sampler(Generic[_Sample]):
    """Takes samples on a separate thread while a block runs."""

    def __init__(self, take: Callable[[], _Sample], interval_seconds: float) -> None:
        self.samples: list[_Sample] = []  # the samples, from the beginning of the block to its end
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


def count_calls(function: Callable[[], object]) -> int:
    """Returns the number of called functions, including those of the interpreter. A rejection also ends the count."""
    count = 0

    def notice(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        function()
    except ReshapeError:
        pass
    finally:
        sys.setprofile(before)
    return count


_WORK_SECONDS, _REST_SECONDS = 0.02, 0.18  # a tenth of a core, so that the meter itself adds little load


class LatenessMeter:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._notes = [self._process.stdout.readline()]

    def stop(self) -> None:
        self._notes += self._process.communicate()[0].splitlines()

    def find_lateness(self, begin: float, end: float) -> float:
        """Returns the average lateness between two times of `time.monotonic`, at least 1. Call `stop` first."""
        notes = [json.loads(note) for note in self._notes]
        times = [lateness for began, lateness in notes if begin <= began <= end]
        return max(1.0, sum(times) / len(times)) if times else 1.0


@contextmanager
def measure_lateness() -> Iterator[LatenessMeter]:
    """Measures the lateness of the machine until the end of the block."""
    meter = LatenessMeter()
    try:
        yield meter
    finally:
        meter.stop()


def _work() -> float:
    """Computes for a moment and returns the lateness: elapsed time divided by processor time."""
    began, work = time.monotonic(), time.process_time()
    while (worked := time.process_time() - work) < _WORK_SECONDS:
        pass
    return (time.monotonic() - began) / worked


def main() -> None:
    stopped = Thread(target=sys.stdin.read, daemon=True)
    stopped.start()
    while stopped.is_alive():
        print(json.dumps([time.monotonic(), _work()]), flush=True)
        stopped.join(_REST_SECONDS)


if __name__ == "__main__":
    main()
