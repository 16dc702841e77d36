"""ModelInfer beside the native call.

The same tensor goes there and back through StaticReshape, and through the model of that name of the Open Inference
Protocol: both as bytes through a stock grpcio channel, so that what differs is the server. A ratio is of the p50 of
two measurements of one round, ModelInfer / StaticReshape, or of the server's processor time for all calls. The bar is
1.3.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import KIB, MIB, Cell
from benchmarks.contestants import OURS, Contestant
from benchmarks.rounds import Entry, Pace, format_number, format_spread
from benchmarks.suites.transport import format_cpu
from benchmarks.tables import Table

PACE = Pace(rounds=20, seconds=0.3)
_CELLS = (Cell(KIB), Cell(MIB))
_CONTESTANTS = (
    Contestant("native", "StaticReshape", OURS, "channels/unary"),
    Contestant("parameter", "ModelInfer, the target a parameter", OURS, "models/parameter"),
    Contestant("input", "ModelInfer, the target an input", OURS, "models/input"),
)


def add_options(parser: ArgumentParser) -> None:
    """There is nothing to choose."""
    del parser


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each size."""
    del options
    return [[Entry(one, cell) for one in _CONTESTANTS] for cell in _CELLS]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns a table for each size; every row is beside the first."""
    head = ("", "p50 us", "/ StaticReshape", "CPU ms a call, server / client", "server's CPU / StaticReshape")
    return [Table(str(group[0].cell), head, [_tell(entry, group[0]) for entry in group]) for group in groups]


def _tell(entry: Entry, native: Entry) -> tuple[str, ...]:
    return (
        entry.contestant.label,
        entry.failure or format_spread(entry.list_values("p50"), 1e6),
        format_spread(entry.compare(native, "p50")),
        format_cpu(entry),
        _compare_cpu(entry, native),
    )


def _compare_cpu(entry: Entry, native: Entry) -> str:
    """Returns the ratio of what a call takes of the server's processor time; a dash where there is too little of it."""
    costs = [
        sum(entry.list_values("cpu_seconds")) / max(sum(entry.list_values("calls")), 1) for entry in (entry, native)
    ]
    return format_number(costs[0] / costs[1]) if all(costs) else "-"
