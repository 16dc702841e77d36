"""The server alone.

h2load sends the same StaticReshape of 1 KiB again and again, one call at a time on each connection: a client that
costs next to nothing. A row is beside the first. Clients are connections. Two workers can be faster than one by 2s /
(s + c) at most, where s and c are the server's and the client's processor time of a call, for they share two cores:
the ceiling.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import KIB, Cell
from benchmarks.contestants import SERVERS
from benchmarks.rounds import Entry, Pace, format_latency, format_number, format_quartiles
from benchmarks.suites.bars import BARS, find_title, judge
from benchmarks.suites.transport import format_cpu, format_steal
from benchmarks.tables import Table

PACE = Pace(rounds=10, seconds=0.5)
_CORES = 2
_HEAD = ("", "calls a second", "it / first", "p50 / p99 ms", "CPU ms a call, server / client", "steal %")
_WORKERS = "served-workers"


def add_options(parser: ArgumentParser) -> None:
    """Adds how many connections there are."""
    parser.add_argument("--clients", nargs="+", type=int, metavar="N", default=(1, 16))


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each number of connections."""
    return [list_entries(Cell(KIB, clients)) for clients in options.clients]


def list_entries(cell: Cell) -> list[Entry]:
    """Returns the entries of a cell; two workers have nothing to share of one connection."""
    return [Entry(one, cell) for one in SERVERS if one.name != _WORKERS or cell.clients > 1]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the bars, and a table for each cell."""
    return [judge(BARS, groups), *map(tell_group, groups)]


def tell_group(group: list[Entry]) -> Table:
    """Returns the table of a cell."""
    title = find_title(group[0].contestant.name, group[0].cell)
    return Table(title, _HEAD, [_tell(entry, group[0]) for entry in group])


def _tell(entry: Entry, first: Entry) -> tuple[str, ...]:
    rate = entry.failure or format_quartiles(entry.list_values("rate"))
    ratio = "1" if entry is first else format_quartiles(entry.compare(first))
    if entry.contestant.name == _WORKERS:
        ratio += _tell_ceiling(first)
    return (entry.contestant.label, rate, ratio, format_latency(entry), format_cpu(entry), format_steal(entry))


def _tell_ceiling(one: Entry) -> str:
    """Returns how much faster two workers can be, by the processor time of one."""
    samples = one.list_samples()
    server, client = sum(sample.cpu_seconds for sample in samples), sum(sample.client_cpu_seconds for sample in samples)
    return f", ceiling {format_number(_CORES * server / (server + client))}" if server else ""
