"""The performance goals of the project compared with the peers, and the verdict of a run on each.

1. A verdict uses the spread of paired ratios, not only their median. r is the measured ratio, b the bar.
2. Pass: the median of r is at least b, and the lower quartile is at least 0.85 b.
3. Miss: the median is below b, and the upper quartile is at most b / 0.85. This is the mirror of a pass, so the rule
   treats results for us and against us alike.
4. Undecided: the quartile contradicts the median, or there are fewer than eight rounds, because their quartiles are too
   random.
5. A bar for memory has one measurement: pass below the limit, else miss.
"""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.contestants import GIB, KIB, MIB, QUERIES, SERVED, Cell
from benchmarks.rounds import Entry, find_quartiles, format_quartiles
from benchmarks.tables import BARS as TITLE
from benchmarks.tables import LEAST_ROUNDS, Table

PASS, MISS, UNDECIDED, NOT_MEASURED = "pass", "**miss**", "undecided", "not measured"
_SLACK = 0.85


class Bar(NamedTuple):
    """A goal: in this cell, `over` makes at least `limit` times as many calls as `under`."""

    text: str  # the statement
    cell: Cell  # the cell
    over: str  # the measured contestant
    under: str | None  # the contestant to compare with; None if the limit is for the server's peak memory above idle
    limit: float  # the ratio, or the bytes


_SMALL, _SMALL_16, _MEDIUM = Cell(KIB), Cell(KIB, 16), Cell(MIB)
_SERVED, _SERVED_16 = Cell(KIB, group=SERVED), Cell(KIB, 16, group=SERVED)
_SERVED_MANY, _QUERIES = Cell(KIB, 64, streams=16, group=SERVED), Cell(KIB, group=QUERIES)
_LARGE, _LARGE_16, _LARGE_PROCESSES = Cell(16 * MIB), Cell(16 * MIB, 16), Cell(16 * MIB, 16, processes=4)
_STREAM = Cell(256 * MIB)
BARS = (
    Bar("at least 3.0 times as fast as stock grpcio", _SMALL, "ours-experiment", "stock", 3),
    Bar(
        "at least as fast as a stock Python client of a C++ server, both clients with the experiment",
        _SMALL,
        "ours-experiment",
        "cpp-experiment",
        1,
    ),
    Bar("without the experiment: at least 2.2 times as fast as stock grpcio", _SMALL, "ours", "stock", 2.2),
    Bar(
        "without the experiment: at least 0.85 times as fast as a stock Python client of a C++ server",
        _SMALL,
        "ours",
        "cpp",
        0.85,
    ),
    Bar("at least 3.0 times as fast as stock grpcio", _SMALL_16, "ours-experiment", "stock", 3),
    Bar("a shape query is at least as fast as an inline call", _QUERIES, "ours-query", "ours", 1),
    Bar("a view is at least as fast as an inline call", _QUERIES, "ours-view", "ours", 1),
    Bar("the server is at least 0.7 times as fast as a C++ server", _SERVED, "served", "served-cpp", 0.7),
    Bar("the server is at least 0.55 times as fast as a C++ server", _SERVED_16, "served", "served-cpp", 0.55),
    Bar("the server is at least 5 times as fast as stock grpcio", _SERVED_16, "served", "served-stock", 5),
    Bar(
        "with `--workers auto`, the server is at least 0.7 times as fast as a C++ server",
        _SERVED_MANY,
        "served-workers",
        "served-cpp",
        0.7,
    ),
    Bar("at least as fast as Arrow Flight", _MEDIUM, "ours", "arrow", 1),
    Bar("at least as fast as Arrow Flight", _LARGE, "ours", "arrow", 1),
    Bar("at least as fast as Arrow Flight", _LARGE_16, "ours", "arrow", 1),
    Bar("at least as fast as Arrow Flight", _LARGE_PROCESSES, "ours", "arrow", 1),
    Bar(
        "with `--workers auto`: at least 0.9 times as fast as Arrow Flight",
        _LARGE_PROCESSES,
        "ours-workers",
        "arrow",
        0.9,
    ),
    Bar("at least 1.2 times as fast as Arrow Flight", _STREAM, "ours", "arrow", 1.2),
    Bar(
        "a stream is at least 0.85 times as fast as a C++ client and server", _STREAM, "ours-stream", "cpp-stream", 0.85
    ),
    Bar(
        "a stream is at least 0.85 times as fast as a C++ server that sends received slices back",
        _STREAM,
        "ours-stream",
        "cpp-slices",
        0.85,
    ),
    Bar("a stream is at least 1.8 times as fast as Arrow Flight", _STREAM, "ours-stream", "arrow", 1.8),
    Bar("a stream is at least 0.42 times as fast as a raw socket copy", _STREAM, "ours-stream", "socket", 0.42),
    Bar("a stream raises the server's peak memory by less than 32 MiB", _STREAM, "ours-stream", None, 32 * MIB),
    Bar(
        "a view is at least 0.67 (1/1.5) times as fast as a call with an empty tensor",
        Cell(GIB),
        "ours-view",
        "ours-empty",
        1 / 1.5,
    ),
)


def judge(bars: Sequence[Bar], groups: Sequence[Sequence[Entry]]) -> Table:
    """Returns the verdict on each bar that the groups cover."""
    rows = [row for bar in bars for group in groups for row in _judge_group(bar, group)]
    return Table(TITLE, ("bar", "cell", "measured", "verdict"), rows)


def find_verdict(ratios: Sequence[float], limit: float) -> str:
    """Returns the verdict of paired ratios on a bar."""
    if not ratios:
        return NOT_MEASURED
    low, middle, high = find_quartiles(ratios)
    if len(ratios) >= LEAST_ROUNDS and middle >= limit and low >= _SLACK * limit:
        return PASS
    if len(ratios) >= LEAST_ROUNDS and middle < limit and high <= limit / _SLACK:
        return MISS
    return UNDECIDED


def _judge_group(bar: Bar, group: Sequence[Entry]) -> list[tuple[str, ...]]:
    entries = {entry.contestant.name: entry for entry in group if entry.cell == bar.cell}
    over, under = entries.get(bar.over), entries.get(bar.under or bar.over)
    if over is None or under is None:
        return []
    if bar.under is None:
        measured, verdict = _judge_peak(over, bar.limit)
    else:
        ratios = over.compare(under)
        measured, verdict = format_quartiles(ratios), find_verdict(ratios, bar.limit)
    return [(bar.text, str(bar.cell), measured, verdict)]


def _judge_peak(entry: Entry, limit: float) -> tuple[str, str]:
    if entry.status or entry.peak_bytes is None:
        return "-", NOT_MEASURED
    return f"{entry.peak_bytes / MIB:.1f} MiB", PASS if entry.peak_bytes < limit else MISS
