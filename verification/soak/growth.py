"""What a server takes while it serves, memory, threads and file descriptors, and whether it grows."""

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from meters import count_descriptors, count_threads, read_memory

MIB = 1024 * 1024
MAX_GROWTH_BYTES = 8 * MIB
MAX_MORE_DESCRIPTORS = 3
MAX_MORE_THREADS = 8
"""By how many the median of the last quarter may be above that of the second; pools of threads fill up slowly."""

SAMPLE_SECONDS = 0.2
_ROWS = 20


class Sample(NamedTuple):
    """What the process took when so many calls were done."""

    calls: int
    seconds: float
    rss_bytes: int
    threads: int
    descriptors: int


def take_sample(pid: int, calls: int, seconds: float) -> Sample:
    """Returns what a process takes now, when so many calls are done after so many seconds."""
    return Sample(calls, seconds, read_memory(pid, "VmRSS"), count_threads(pid), count_descriptors(pid))


def await_descriptors(take: Callable[[], Sample], count: int, seconds: float) -> Sample:
    """Waits until no more than `count` are open, `seconds` at the most; returns the last sample."""
    end = time.monotonic() + seconds
    while (sample := take()).descriptors > count and time.monotonic() < end:
        time.sleep(SAMPLE_SECONDS)
    return sample


def build_table(samples: Sequence[Sample]) -> list[str]:
    """Returns a row for each twentieth of the calls: medians, and the largest memory."""
    lines = [f"{'calls':>9}{'seconds':>9}{'RSS MiB':>10}{'most':>8}{'threads':>9}{'fds':>6}"]
    for row in split(samples, _ROWS):
        memory = median(sample.rss_bytes for sample in row) / MIB
        most = max(sample.rss_bytes for sample in row) / MIB
        threads, fds = (median(column) for column in ([one.threads for one in row], [one.descriptors for one in row]))
        lines.append(f"{row[-1].calls:9}{row[-1].seconds:9.0f}{memory:10.1f}{most:8.1f}{threads:9.0f}{fds:6.0f}")
    return lines


def find_growth(samples: Sequence[Sample]) -> list[str]:
    """Returns what has grown from the second quarter of the calls to the last one."""
    quarters = split(samples, 4)
    if len(quarters) < 4:
        return ["there are too few samples"]
    second, last = quarters[1], quarters[3]
    memory = [median(sample.rss_bytes for sample in quarter) for quarter in (second, last)]
    threads = [median(sample.threads for sample in quarter) for quarter in (second, last)]
    descriptors = [median(sample.descriptors for sample in quarter) for quarter in (second, last)]
    return [
        f"{what} has grown from {before:.0f} to {after:.0f}"
        for what, (before, after), more in (
            ("memory in bytes", memory, MAX_GROWTH_BYTES),
            ("the number of threads", threads, MAX_MORE_THREADS),
            ("the number of file descriptors", descriptors, MAX_MORE_DESCRIPTORS),
        )
        if after > before + more
    ]


def split(samples: Sequence[Sample], count: int) -> list[list[Sample]]:
    """Splits samples into parts of equally many calls; parts without a sample are left out."""
    total = samples[-1].calls + 1 if samples else 1
    parts: list[list[Sample]] = [[] for _ in range(count)]
    for sample in samples:
        parts[sample.calls * count // total].append(sample)
    return [part for part in parts if part]
