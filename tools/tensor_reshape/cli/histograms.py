"""Latencies for people: percentiles, and a histogram drawn in text.

A percentile is a latency that was measured: the least that so many percent of all are not above (nearest rank).
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import ceil

PERCENTILES = (50.0, 90.0, 99.0, 99.9)

_UNITS = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
_STEPS = (1, 2, 5)
_BAR = "#"


def find_percentile(ordered: Sequence[int], percent: float) -> int:
    """Returns a percentile of latencies that are in order, of which there is one at least."""
    return ordered[max(ceil(len(ordered) * percent / 100) - 1, 0)]


def format_latency(nanoseconds: int) -> str:
    """Returns a latency with three digits: `1.23 ms`."""
    unit, size = next(((unit, size) for unit, size in _UNITS if nanoseconds >= size), _UNITS[-1])
    value = nanoseconds / size
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"  # noqa: PLR2004 - three digits


def draw_histogram(ordered: Sequence[int], columns: int) -> Iterator[str]:
    """Yields a line for each step of a scale of 1, 2, 5, from the fastest call to the slowest.

    Args:
        ordered: the latencies in nanoseconds, in order.
        columns: how wide a line is at most.
    """
    rows = list(_count(ordered))
    labels = [f"{format_latency(low)} - {format_latency(high)}" for low, high, _ in rows]
    widest, most = max(map(len, labels)), max(count for _, _, count in rows)
    digits = len(str(most))
    room = max(columns - widest - digits - 4, 1)
    for label, (_, _, count) in zip(labels, rows, strict=True):
        # A single slow call is what one looks for: it has a bar, too.
        yield f"{label:>{widest}}  {count:>{digits}}  {_BAR * ceil(count * room / most)}".rstrip()


def _count(ordered: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yields the bounds of each step, the upper one excluded, and how many are in it."""
    low = _find_step(ordered[0])
    while low <= max(ordered[-1], 1):
        high = _find_step(low, above=True)
        yield low, high, bisect_left(ordered, high) - (bisect_left(ordered, low) if low > 1 else 0)
        low = high


def _find_step(value: int, *, above: bool = False) -> int:
    """Returns the largest step up to a value, or the first one above it."""
    scale = int(10 ** (len(str(max(value, 1))) - 1))
    steps: list[int] = [step * scale for step in (*_STEPS, 10 * _STEPS[0])]
    return (
        next(step for step in steps if step > value) if above else max(step for step in steps if step <= max(value, 1))
    )
