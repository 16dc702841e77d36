"""What it costs to infer a shape.

Reshapes of models, all distinct, with special_zero, by the rules of Reshape-1. Of `known` every dim is known, rank 2
to 5; of `intervals` batch and length are intervals or unknown; of `symbols` they have names; `mixed` is a third of
each. A batch is `Client.infer_shapes` against a server in a process of its own, over TCP: from Python objects to
Python objects. OpenVINO makes a Parameter, a Constant and a Reshape node in the client's process and reads the
output's shape; its shapes are prepared before. Everything is asked once a round. Each answer is checked before
anything is timed. All rows of a table are measured in turn, round by round; cells show the median of the rounds, and
the least and the greatest in brackets. A ratio above 1 means that what is named first takes longer; "it" is the row.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import Cell
from benchmarks.contestants import OURS, Contestant
from benchmarks.questions import HOSTILE, MIXED, PARTS
from benchmarks.rounds import Entry, Pace, format_spread
from benchmarks.tables import Table

# One call each, so that what a batch leaves in caches helps it once a round at most.
PACE = Pace(rounds=9, seconds=0)
BATCH = Contestant("batch", "a batch through the RPC", OURS, "sdk/batch")
LOCAL = Contestant("local", "`infer_locally`", (), "sdk/local")
_OPENVINO = Contestant("openvino", "OpenVINO", (), "openvino/nodes", "openvino")
_ALONE = Contestant("alone", "one by one through the RPC", OURS, "sdk/alone")
_SIZES = (1_000, 100, 10_000, 50_000)
_SINGLE_CALLS = 200
_HOSTILE_ITEMS = 20


def add_options(parser: ArgumentParser) -> None:
    """Adds how much is asked."""
    parser.add_argument("--questions", type=int, default=10_000, help="of each batch beside OpenVINO")
    parser.add_argument("--sizes", nargs="+", type=int, default=_SIZES, help="of batches; the first is compared with")


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each table; the first entry of a group is what the others are compared with."""
    cells = [Cell(options.questions, load=load) for load in (MIXED, *PARTS)]
    mixes = [[Entry(one, cell) for one in (_OPENVINO, BATCH, LOCAL)] for cell in cells]
    single = [Entry(BATCH, cells[0]), Entry(_ALONE, Cell(_SINGLE_CALLS, load=MIXED))]
    sizes = [Entry(BATCH, Cell(size, load=MIXED)) for size in options.sizes]
    hostile = [Entry(BATCH, Cell(_HOSTILE_ITEMS, load=load)) for load in (MIXED, *HOSTILE)]
    return [*mixes, single, sizes, hostile]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns a table for each group."""
    return [_tell_group(group) for group in groups]


def _tell_group(group: list[Entry]) -> Table:
    first = group[0]
    if first.contestant is _OPENVINO:
        rows = [_tell(one.contestant.label, one, first.compare(one, "p50")) for one in group]
        return Table(str(first.cell), ("", "us a question", "OpenVINO / it"), rows)
    title, labels = _name_rows(group)
    scales = [first.cell.size / entry.cell.size for entry in group]
    ratios = [
        [ratio * scale for ratio in entry.compare(first, "p50")] for entry, scale in zip(group, scales, strict=True)
    ]
    rows = [_tell(*row) for row in zip(labels, group, ratios, strict=True)]
    return Table(title, ("", "us a question", f"it / {labels[0]}"), rows)


def _name_rows(group: list[Entry]) -> tuple[str, list[str]]:
    """Returns the title of a table and its rows' names, after what its entries differ in."""
    labels = [entry.contestant.label for entry in group]
    loads, sizes = [entry.cell.load for entry in group], [entry.cell.size for entry in group]
    if len({*loads}) > 1:
        return f"Hostile questions, {sizes[0]} a batch", loads
    if len({*sizes}) > 1:
        return ("One by one", labels) if len({*labels}) > 1 else ("Size of a batch", [f"{size:,}" for size in sizes])
    return str(group[0].cell), labels


def _tell(label: str, entry: Entry, ratios: list[float]) -> tuple[str, ...]:
    microseconds = format_spread(entry.list_values("p50"), 1e6 / entry.cell.size)
    return (label, entry.failure or microseconds, format_spread(ratios))
