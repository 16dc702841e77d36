"""What this project promises beside the others, in about ten minutes.

Every contestant takes a float32 tensor of shape (n,) and returns the same bytes as (2, n/2). Its server runs in a
process of its own, its clients in others; the answer's shape and bytes are checked before anything is timed. All
clients of a process share one connection, but those of the raw socket, which have one each. "The experiment" is
`GRPC_EXPERIMENTS=-event_engine_client` in the client's process: the SDK sets it by itself, so there are rows of others
with it, and of ours without. In a round the contestants take turns, each round in another order. A ratio is the first
row over the row (with h2load: the row over the first), of two measurements of one round. Tables show the median of the
rounds with the quartiles in brackets, the processor time of both sides, and steal: what the machine wanted meanwhile
and was denied. Pass, miss and undecided are by the quartiles, see `benchmarks/suites/bars.py`. Words in place of a
number say why there is none; a dash: nothing was measured.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from benchmarks.cells import GIB, KIB, MIB, Cell
from benchmarks.contestants import TRANSPORT
from benchmarks.environments import ROOT, read_free_memory
from benchmarks.rounds import Entry, Pace
from benchmarks.suites import server, transport
from benchmarks.suites.bars import BARS, judge
from benchmarks.tables import Table

# Processes are kept from round to round: fresh ones would take longer than the streams that they are for.
PACE = Pace(rounds=10, seconds=0.3, is_fresh=False)
_MEMORY_SHARE = 0.7
_DRAWN = ("ours", "stock", "cpp", "arrow", "socket")
_STREAMS = ("cpp-stream", "cpp-slices")
_SMALL = (
    "ours",
    "ours-refused",
    "ours-asyncio",
    "stock",
    "stock-experiment",
    "cpp",
    "cpp-experiment",
    "arrow",
    "socket",
)
_LARGE = ("ours", "ours-refused", "cpp", "cpp-experiment", "arrow", "socket")  # the others take seconds a call
CELLS = {
    Cell(KIB): (*_SMALL, "ours-stock", "ours-raw", "ours-event"),
    Cell(64 * KIB): _DRAWN,
    Cell(MIB): (*_DRAWN, *_STREAMS),
    Cell(16 * MIB): (*_DRAWN, *_STREAMS, "ours-refused", "ours-asyncio", "arrow-open"),
    Cell(256 * MIB): ("ours-stream", "ours", "ours-refused", "ours-asyncio", "arrow", "socket", *_STREAMS),
    Cell(GIB): ("ours-view", "ours-empty"),
    Cell(KIB, 16): (*_SMALL, "ours-event"),
    Cell(KIB, 16, processes=4): (*_SMALL, "ours-event"),
    Cell(16 * MIB, 16): _LARGE,
    Cell(16 * MIB, 16, processes=4): _LARGE,
}
"""Who is measured where; a bar is judged where both of its contestants are."""

_SERVER_CELLS = (Cell(KIB), Cell(KIB, 16))


def add_options(parser: ArgumentParser) -> None:
    """Adds what chooses cells."""
    parser.add_argument(
        "--into", type=Path, metavar="FOLDER", help="for results.md, results.png, and the README's table"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md", help="whose table --into writes")
    parser.add_argument("--cells", default="", metavar="TEXT", help="only those whose title contains this")


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each cell; one whose tensors would not fit into memory, all at once, is skipped."""
    names = {one.name: one for one in TRANSPORT}
    groups = [[Entry(names[name], cell) for name in members] for cell, members in CELLS.items()]
    groups += map(server.list_entries, _SERVER_CELLS)
    free = read_free_memory() * _MEMORY_SHARE
    for group in groups:
        if sum(entry.cell.clients * entry.cell.size * entry.contestant.copies for entry in group) > free:
            for entry in group:
                entry.status = "skipped: memory"
    return [group for group in groups if options.cells in _tell_group(group).title]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the bars, and a table for each cell."""
    return [judge(BARS, groups), *map(_tell_group, groups)]


def _tell_group(group: list[Entry]) -> Table:
    is_served = group[0].contestant.name.startswith("served")
    return server.tell_group(group) if is_served else transport.tell_group(group)
