"""Two worker processes beside one.

Servers with `--workers` 1 and 2 answer tensors of 1 KiB and 64 KiB over TCP, to stock channels with a connection
each, and to h2load. On two cores that the clients share the gain is bounded: h2load costs next to nothing, Python's
clients as much as the server.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import KIB, Cell
from benchmarks.contestants import WORKERS
from benchmarks.rounds import Entry, Pace, format_latency, format_spread
from benchmarks.suites.bars import WORKER_BARS, judge
from benchmarks.tables import Table

PACE = Pace(rounds=9, seconds=1)


def add_options(parser: ArgumentParser) -> None:
    """Adds how many call."""
    parser.add_argument("--clients", nargs="+", type=int, metavar="N", default=(16, 64))


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each cell."""
    cells = [Cell(size, clients) for clients in options.clients for size in (KIB, 64 * KIB)]
    return [[Entry(one, cell) for one in WORKERS] for cell in cells]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the bars, and a table for each cell: every server beside the one worker behind the same client."""
    return [judge(WORKER_BARS, groups), *(_tell_group(group) for group in groups)]


def _tell_group(group: list[Entry]) -> Table:
    ones = {entry.contestant.client: entry for entry in reversed(group)}  # the first of each client has one worker
    rows: list[tuple[str, ...]] = [
        (
            entry.contestant.label,
            entry.failure or format_spread(entry.list_values("rate")),
            format_spread(entry.compare(ones[entry.contestant.client])),
            format_latency(entry),
        )
        for entry in group
    ]
    return Table(str(group[0].cell), ("", "calls a second", "/ 1 worker", "p50 / p99 ms"), rows)
