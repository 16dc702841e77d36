"""Bars: what the project promises of itself beside the others, and whether a run keeps it."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.cells import GIB, KIB, MIB
from benchmarks.rounds import Entry, format_spread
from benchmarks.tables import BARS as TITLE
from benchmarks.tables import Table


class Bar(NamedTuple):
    """A promise: in cells of that size, `over` makes at least `limit` times as many calls as `under`.

    Attributes:
        text: what it says.
        size: the cells' size.
        over: who is measured.
        under: whom beside; None: the server's peak memory above rest is what counts, and stays below the limit.
        limit: the ratio, or the bytes.
        clients: of the cells; None: any number.
    """

    text: str
    size: int
    over: str
    under: str | None
    limit: float
    clients: int | None = None


BARS = (
    Bar("1 KiB: at least 2.5 x stock sync grpcio", KIB, "ours", "stock", 2.5),
    Bar("1 KiB: at least 1.0 x the C++ sync server, behind the same client", KIB, "ours-raw", "cpp", 1),
    Bar("16 MiB: at least 5 x stock sync grpcio", 16 * MIB, "ours", "stock", 5),
    Bar("16 MiB: at least 1.0 x Arrow Flight", 16 * MIB, "ours", "arrow", 1),
    Bar("16 MiB: at least 4 x Triton", 16 * MIB, "ours", "triton", 4),
    Bar("16 MiB: at least 30 x MLServer", 16 * MIB, "ours", "mlserver", 30),
    Bar("256 MiB stream: at least 0.85 x a raw socket copy", 256 * MIB, "ours-stream", "socket", 0.85, 1),
    Bar(
        "256 MiB stream: the server's peak memory below 64 MiB above rest", 256 * MIB, "ours-stream", None, 64 * MIB, 1
    ),
    Bar("view of 1 GiB: at least 1/1.5 = 0.67 x as many calls as empty ones", GIB, "ours-view", "ours-empty", 1 / 1.5),
)
WORKER_BARS = tuple(
    Bar(f"2 workers: at least 1.7 x one, 16 connections, {label}", KIB, f"ours-2-{client}", f"ours-1-{client}", 1.7, 16)
    for client, label in (("channels", "stock channels"), ("h2load", "h2load"))
)


def judge(bars: Sequence[Bar], groups: Sequence[Sequence[Entry]]) -> Table:
    """Returns the verdict on each bar, cell by cell."""
    rows = [row for bar in bars for group in groups for row in _judge_group(bar, group)]
    return Table(TITLE, ("bar", "cell", "measured", "verdict"), rows)


def _judge_group(bar: Bar, group: Sequence[Entry]) -> list[tuple[str, ...]]:
    entries = {
        entry.contestant.name: entry
        for entry in group
        if entry.cell.size == bar.size and bar.clients in {None, entry.cell.clients}
    }
    over, under = entries.get(bar.over), entries.get(bar.under or bar.over)
    if over is None or under is None:
        return []
    if bar.under is None:
        peak = None if over.status else over.peak_bytes
        measured, is_kept = ("-", None) if peak is None else (f"{peak / MIB:.1f} MiB", peak < bar.limit)
    else:
        ratios = over.compare(under)
        measured, is_kept = format_spread(ratios), median(ratios) >= bar.limit if ratios else None
    verdict = {True: "pass", False: "**miss**", None: "not measured"}[is_kept]
    return [(bar.text, str(over.cell), measured, verdict)]
