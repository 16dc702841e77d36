"""Bars: what the project promises of itself beside the others, and whether a run keeps it."""

from dataclasses import dataclass

from benchmarks.cells import GIB, KIB, MIB, Cell
from benchmarks.contestants import ABSENT
from benchmarks.ratios import compare
from benchmarks.results import OK, Results

NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A promise.

    Attributes:
        text: what it says.
        size: the cells' size.
        over: who is measured.
        under: whom beside; None: the server's peak memory is what counts.
        limit: the ratio at least, or the bytes that the peak stays below.
        clients: the cells' clients; none: any.
    """

    text: str
    size: int
    over: str
    under: str | None
    limit: float
    clients: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar in a cell: what was measured, and whether it is enough; None: it was not measured."""

    bar: Bar
    cell: Cell | None
    measured: str
    is_kept: bool | None


BARS = (
    Bar(text="1 KiB: at least 2.5 x stock sync grpcio", size=KIB, over="ours", under="stock", limit=2.5),
    Bar(
        text="1 KiB: at least 1.0 x the C++ sync server, behind the same client",
        size=KIB,
        over="ours-raw",
        under="cpp",
        limit=1,
    ),
    Bar(text="16 MiB: at least 5 x stock sync grpcio", size=16 * MIB, over="ours", under="stock", limit=5),
    Bar(text="16 MiB: at least 1.0 x Arrow Flight", size=16 * MIB, over="ours", under="arrow", limit=1),
    Bar(text="16 MiB: at least 4 x Triton", size=16 * MIB, over="ours", under="triton", limit=4),
    Bar(text="16 MiB: at least 30 x MLServer", size=16 * MIB, over="ours", under="mlserver", limit=30),
    Bar(
        text="256 MiB stream: at least 0.85 x a raw socket copy",
        size=256 * MIB,
        over="ours-stream",
        under="socket",
        limit=0.85,
        clients=(1,),
    ),
    Bar(
        text="256 MiB stream: the server's peak memory below 64 MiB above rest",
        size=256 * MIB,
        over="ours-stream",
        under=None,
        limit=64 * MIB,
        clients=(1,),
    ),
    Bar(
        text="view of 1 GiB: at least 1/1.5 = 0.67 x as many calls as empty ones",
        size=GIB,
        over="ours-view",
        under="ours-empty",
        limit=1 / 1.5,
    ),
    Bar(
        text="2 workers: at least 1.7 x one, 16 connections, stock channels",
        size=KIB,
        over="ours-2-channels",
        under="ours-1-channels",
        limit=1.7,
        clients=(16,),
    ),
    Bar(
        text="2 workers: at least 1.7 x one, 16 connections, h2load",
        size=KIB,
        over="ours-2-loads",
        under="ours-1-loads",
        limit=1.7,
        clients=(16,),
    ),
)


def judge(results: Results) -> list[Verdict]:
    """Returns the verdict on each bar, cell by cell; a bar that no cell says anything about has one without a cell."""
    return [verdict for bar in BARS for verdict in _judge_bar(bar, results)]


def _judge_bar(bar: Bar, results: Results) -> list[Verdict]:
    cells = [cell for cell in results.list_cells() if _concerns(bar, cell, results)]
    return [_judge_cell(bar, cell, results) for cell in cells] or [Verdict(bar, None, NOT_MEASURED, None)]


def _concerns(bar: Bar, cell: Cell, results: Results) -> bool:
    if cell.size != bar.size or (bar.clients and cell.clients not in bar.clients):
        return False
    entries = [results.find(cell, name) for name in (bar.over, bar.under) if name]
    return all(entry is not None and entry.status != ABSENT for entry in entries)


def _judge_cell(bar: Bar, cell: Cell, results: Results) -> Verdict:
    entry = results.find(cell, bar.over)
    if bar.under is None:
        if entry is None or entry.peak_bytes is None or entry.status != OK:
            return Verdict(bar, cell, NOT_MEASURED, None)
        return Verdict(bar, cell, f"{entry.peak_bytes / MIB:.1f} MiB", entry.peak_bytes < bar.limit)
    ratio = compare(entry, results.find(cell, bar.under))
    if ratio is None:
        return Verdict(bar, cell, NOT_MEASURED, None)
    return Verdict(bar, cell, str(ratio), ratio.median >= bar.limit)
