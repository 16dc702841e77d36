"""The performance goals of this project compared with other implementations.

Every contestant takes a float32 tensor of shape (n,) and returns its bytes as a tensor of shape (2, n/2). The server of
a contestant runs in one process, or in one process for each core with `--workers auto`. The clients run in other
processes. The benchmark checks the shape and the bytes of a result before the measurement. All clients of a process
share one connection, except that each client of the raw socket, REST and `--workers auto` has its own connection. "With
the experiment" means that the client's process has the variable `GRPC_EXPERIMENTS=-event_engine_client`, which the
SDK's `use_fast_polling` sets. Only some rows of this project ("ours") and of the C++ server are measured with the
experiment. In each round, the contestants are measured one after another, and the order differs from round to round.
The column "first / it" divides the calls per second of the first row by those of each row, and "it / first" does the
opposite. Both values are from the same round. Tables show the median of the rounds, with the quartiles in brackets. The
verdicts "pass", "miss" and "undecided" follow from the quartiles (`benchmarks/suites/bars.py`). If a cell has words
instead of a number, they give the reason. A dash means that nothing was measured.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from benchmarks.contestants import (
    CONTESTANTS,
    EXPERIMENT,
    GIB,
    KIB,
    MIB,
    QUERIES,
    REST,
    SERVED,
    SERVERS,
    Cell,
)
from benchmarks.environments import read_free_memory
from benchmarks.rounds import Entry, Pace, format_latency, format_number, format_quartiles
from benchmarks.suites.bars import BARS, judge
from benchmarks.tables import DETAILS, SLOWER, SUMMARY, Table

PACE = Pace(rounds=10, seconds=0.3)
_MEMORY_SHARE = 0.7
_OURS = ("ours", "ours-shapes", "ours-network", "ours-experiment")
_SMALL = (*_OURS, "stock", "cpp", "cpp-experiment", "arrow", "socket")
_SERVERS = ("served", "served-event", "served-cpp", "served-stock")
CELLS = {
    Cell(KIB): _SMALL,
    Cell(KIB, group=QUERIES): ("ours", "ours-query", "ours-view", "stock-query"),
    Cell(KIB, group=REST): ("ours-rest", "starlette"),
    Cell(MIB): ("ours", "stock", "cpp", "arrow", "socket"),
    Cell(16 * MIB): ("ours", "stock", "cpp-slices", "arrow", "socket"),
    Cell(256 * MIB): ("ours", "ours-stream", "arrow", "socket", "cpp-stream", "cpp-slices"),
    Cell(GIB): ("ours-view", "ours-empty"),
    Cell(KIB, 16): _SMALL,
    Cell(16 * MIB, 16): ("ours", "cpp", "arrow", "socket"),
    Cell(16 * MIB, 16, processes=4): ("ours", "ours-workers", "arrow"),
    Cell(KIB, group=SERVED): _SERVERS,
    Cell(KIB, 16, group=SERVED): _SERVERS,
    Cell(KIB, 64, streams=16, group=SERVED): ("served", "served-workers", "served-cpp"),
}
"""The contestants of each cell. A bar is judged in the cell of both contestants."""

_CALLS = {
    "a small call of 1 KiB": (Cell(KIB), "ours"),
    "small calls from 16 threads": (Cell(KIB, 16), "ours"),
    "1 MiB": (Cell(MIB), "ours"),
    "16 MiB": (Cell(16 * MIB), "ours"),
    "16 MiB from 16 threads": (Cell(16 * MIB, 16), "ours"),
    "256 MiB": (Cell(256 * MIB), "ours"),
    "a shape query": (Cell(KIB, group=QUERIES), "ours-query"),
    "a REST call of 1 KiB": (Cell(KIB, group=REST), "ours-rest"),
}
"""Calls that a user recognises, with default settings."""

_HIDDEN = ("16 MiB", "16 MiB from 16 threads")
"""Calls without a row in the README, which lists them only if a peer is faster."""

_PEERS = {
    "stock grpcio or Starlette": ("stock", "stock-query", "starlette"),
    "C++ server": ("cpp", "cpp-slices"),
    "Arrow Flight": ("arrow",),
}
"""The peers of the README's table. The first contestant that the cell of a row has is the peer."""

_LARGEST = "256 MiB"
_THREADS = "1 KiB, 16 threads"
_ROWS = {
    "1 KiB": (Cell(KIB), "ours"),
    "1 KiB, 10,000 shapes": (Cell(KIB), "ours-shapes"),
    "1 KiB, server on a network address": (Cell(KIB), "ours-network"),
    "1 KiB, with `use_fast_polling`": (Cell(KIB), "ours-experiment"),
    _THREADS: (Cell(KIB, 16), "ours"),
    f"{_THREADS}, 10,000 shapes": (Cell(KIB, 16), "ours-shapes"),
    f"{_THREADS}, server on a network address": (Cell(KIB, 16), "ours-network"),
    "1 MiB": (Cell(MIB), "ours"),
    "16 MiB": (Cell(16 * MIB), "ours"),
    "16 MiB, 16 threads": (Cell(16 * MIB, 16), "ours"),
    "256 MiB": (Cell(256 * MIB), "ours"),
    "256 MiB, with `out=`": (Cell(256 * MIB), "ours-stream"),
}
_COLUMNS = {
    "stock grpcio": "stock",
    "C++ server, Python client": "cpp",
    "C++ server and client": "cpp-slices",
    "Arrow Flight": "arrow",
    "raw socket": "socket",
}
"""The peers of the report's table. A row with the experiment has C++ with the experiment as well."""

_Entries = Mapping[tuple[Cell, str], Entry]
_LATENCY = "p50 / p99 ms"
_PEAK = "server's peak memory, per tensor"


def add_options(parser: ArgumentParser) -> None:
    """Adds the options that select cells."""
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="folder for results.md")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="a page with a table to update, such as README.md")
    parser.add_argument("--cells", default="", metavar="TEXT", help="measure only cells whose title contains this text")


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each cell. A cell is skipped if its tensors do not fit into memory together."""
    by_name = {one.name: one for one in (*CONTESTANTS, *SERVERS)}
    groups = [[Entry(by_name[name], cell) for name in names] for cell, names in CELLS.items()]
    free = read_free_memory() * _MEMORY_SHARE
    for group in groups:
        if sum(entry.cell.clients * entry.cell.size * entry.contestant.copies for entry in group) > free:
            for entry in group:
                entry.status = "skipped: memory"
    return [group for group in groups if options.cells in str(group[0].cell)]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the tables of the bars and of the calls, and for each cell one that compares its rows with the first."""
    entries = {(entry.cell, entry.contestant.name): entry for group in groups for entry in group}
    return [judge(BARS, groups), *_summarize(entries), _detail(entries), *map(_build_table, groups)]


def _summarize(entries: _Entries) -> tuple[Table, Table]:
    """Returns the README's table, and the calls for which a peer is faster; both have only measured calls."""
    summary = Table(SUMMARY, ("", "tensor-reshape", *_PEERS))
    slower = Table(SLOWER, ("call", "peer", "times as fast"))
    for text, (cell, name) in _CALLS.items():
        own = entries.get((cell, name))
        if own is None or not own.list_samples():
            continue
        peers = {peer: _find_peer(entries, cell, peer) for peer in _PEERS}
        ratios = {peer: own.compare(other) if other else [] for peer, other in peers.items()}
        slower.rows += [
            (text, peer, format_quartiles(found)) for peer, found in ratios.items() if found and median(found) < 1
        ]
        if text not in _HIDDEN:
            summary.rows.append((text, _format_speed(own), *map(format_quartiles, ratios.values())))
    largest, own = _CALLS[_LARGEST][0], entries.get(_CALLS[_LARGEST])
    if own is not None and own.list_samples():
        rows = [own, *(_find_peer(entries, largest, peer) for peer in _PEERS)]
        summary.rows.append((f"memory of the server for {_LARGEST}", *map(_format_memory, rows)))
    return summary, slower


def _format_memory(entry: Entry | None) -> str:
    """Returns the server's peak memory above its idle memory."""
    return "-" if entry is None or entry.peak_bytes is None else f"{entry.peak_bytes / MIB:.0f} MiB"


def _find_peer(entries: _Entries, cell: Cell, peer: str) -> Entry | None:
    return next((entries[cell, name] for name in _PEERS[peer] if (cell, name) in entries), None)


def _format_speed(entry: Entry) -> str:
    """Returns the time of a call, or the rate of several clients."""
    if entry.cell.clients > 1:
        return f"{format_number(median(entry.list_values('rate')))} a second"
    return f"{format_number(median(entry.list_values('p50')) * 1e3)} ms"


def _detail(entries: _Entries) -> Table:
    """Returns how many times as fast as each peer a call is, also with other settings than the default."""
    table = Table(DETAILS, ("times as fast as", *_COLUMNS))
    for text, (cell, name) in _ROWS.items():
        row, own = [text], entries.get((cell, name))
        for peer in _COLUMNS.values():
            fast = f"{peer}-experiment" if own and own.contestant.experiments == EXPERIMENT else peer
            other = entries.get((cell, fast), entries.get((cell, peer)))
            row.append(format_quartiles(own.compare(other)) if own and other else "-")
        table.rows.append(tuple(row))
    return table


def _build_table(group: list[Entry]) -> Table:
    first, title = group[0], str(group[0].cell)
    if first.contestant in SERVERS:
        rows = [_build_row(one, one.compare(first)) for one in group]
        return Table(title, ("", "calls a second", "it / first", _LATENCY), rows)
    rows = [(*_build_row(one, first.compare(one)), _format_peak(one)) for one in group]
    return Table(title, ("", "calls a second", "first / it", _LATENCY, _PEAK), rows)


def _build_row(entry: Entry, ratios: list[float]) -> tuple[str, ...]:
    rate = entry.failure or format_quartiles(entry.list_values("rate"))
    return (entry.contestant.label, rate, format_quartiles(ratios), format_latency(entry))


def _format_peak(entry: Entry) -> str:
    """Returns the server's peak memory above its idle memory, for each tensor in flight."""
    if entry.peak_bytes is None or entry.status:
        return "-"
    peak, size = entry.peak_bytes / entry.cell.clients, entry.cell.size
    return f"{peak / MIB:.1f} MiB ({peak / size:.2f} x)"
