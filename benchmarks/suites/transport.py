"""A tensor there and back, beside others.

Every contestant takes a float32 tensor of shape (n,) and returns the same bytes as (2, n/2). Its server runs in a
process of its own, its usual client library in another; the answer's shape and bytes are checked before anything is
timed. In a round the contestants take turns, each round in another order. A ratio is the first row over the row, of two
measurements of one round. Tables show the median of the rounds, and the quartiles in brackets. Words in place of a
number say why there is none; a dash: nothing was measured.
"""

import os
from argparse import ArgumentParser, Namespace

from benchmarks.cells import GIB, KIB, MIB, TCP, UNIX, Cell, parse_size
from benchmarks.contestants import TRANSPORT
from benchmarks.environments import read_free_memory
from benchmarks.rounds import Entry, Pace, format_latency, format_number, format_quartiles
from benchmarks.suites.bars import BARS, judge
from benchmarks.tables import Table

PACE = Pace(rounds=5, seconds=0.5)
_SIZES = (0, KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB, GIB)
_MEMORY_SHARE = 0.7
_HEAD = (
    "",
    "calls a second",
    "first / it",
    "p50 / p99 ms",
    "CPU ms a call, server / client",
    "steal %",
    "server's peak memory, per tensor",
)


def add_options(parser: ArgumentParser) -> None:
    """Adds what chooses cells."""
    parser.add_argument("--sizes", nargs="+", type=parse_size, metavar="SIZE", default=_SIZES, help="0 1KiB ... 1GiB")
    parser.add_argument("--clients", nargs="+", type=int, metavar="N", default=(1, 16, 64))
    parser.add_argument("--transports", nargs="+", choices=(TCP, UNIX), default=(TCP, UNIX))


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each cell; a contestant whose tensors in flight would not fit into memory is skipped."""
    free = read_free_memory() * _MEMORY_SHARE
    cells = [Cell(*cell) for cell in _combine(options)]
    groups = [[Entry(one, cell) for one in TRANSPORT if one.takes_part(cell)] for cell in cells]
    for entry in (entry for group in groups for entry in group):
        if entry.cell.clients * entry.cell.size * entry.contestant.copies > free:
            entry.status = "skipped: memory"
    return groups


def _combine(options: Namespace) -> list[tuple[int, int, str]]:
    triples = [(size, count, one) for one in options.transports for count in options.clients for size in options.sizes]
    return sorted(triples, key=lambda triple: (triple[2], triple[1], triple[0]))


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the bars, and a table for each cell."""
    return [judge(BARS, groups), *map(tell_group, groups)]


def tell_group(group: list[Entry]) -> Table:
    """Returns the table of a cell; every row is beside the first."""
    return Table(str(group[0].cell), _HEAD, [_tell(entry, group[0]) for entry in group])


def format_cpu(entry: Entry) -> str:
    """Returns the processor time of a call in milliseconds, of the server and of its client; a dash for none."""
    samples = entry.list_samples()
    calls = sum(one.calls for one in samples)
    times = (sum(one.cpu_seconds for one in samples), sum(one.client_cpu_seconds for one in samples))
    return " / ".join(format_number(time / calls * 1e3) for time in times) if calls else "-"


def format_steal(entry: Entry) -> str:
    """Returns how much of the machine's time was stolen while the entry was measured; a dash where it was not."""
    samples = entry.list_samples()
    machine_seconds = sum(one.seconds for one in samples) * (os.cpu_count() or 1)
    return f"{sum(one.steal_seconds for one in samples) / machine_seconds * 100:.1f}" if samples else "-"


def _tell(entry: Entry, first: Entry) -> tuple[str, ...]:
    rate = entry.failure or format_quartiles(entry.list_values("rate"))
    ratio = "1" if entry is first else format_quartiles(first.compare(entry))
    meters = (format_latency(entry), format_cpu(entry), format_steal(entry), _tell_peak(entry))
    return (entry.contestant.label, rate, ratio, *meters)


def _tell_peak(entry: Entry) -> str:
    """Returns the most memory of the server above what it has at rest, for each tensor in flight."""
    if entry.peak_bytes is None or entry.status:
        return "-"
    peak, size = entry.peak_bytes / entry.cell.clients, entry.cell.size
    return f"{peak / MIB:.1f} MiB ({peak / size:.2f} x)"
