"""Two versions of this project, measured in turn.

The candidate is the environment that runs this program, and the base is another one (`--against`). Each has its own
server and client. A ratio is the duration of a call, candidate / base, from two measurements of one round. A ratio
below 1 means that the candidate is faster. The table says "faster" or "slower" only if both quartiles, which are in
brackets, are on the same side of 1. They show the precision of the machine. To see the effect of chance, compare a
version with itself.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from statistics import median

from benchmarks.contestants import EXPERIMENT, KIB, MIB, OURS, OWN, REJECTED, Cell, Contestant
from benchmarks.questions import ALL_HOSTILE, HOSTILE, MIXED
from benchmarks.rounds import Entry, Pace, find_quartiles, format_number, format_quartiles
from benchmarks.tables import LEAST_ROUNDS, Table

PACE = Pace(rounds=15, seconds=0.3, measures_memory=False)
BASE = "base"
_RAW = Contestant("raw", "unary, stock channel", OURS, "channels/unary")
_SDK = Contestant("sdk", "unary, SDK", OURS, "sdk/auto", experiments=REJECTED)
_FAST = Contestant("sdk-experiment", "unary, SDK, with the experiment", OURS, "sdk/auto", experiments=EXPERIMENT)
_WORKS = (
    # The stock channel measures the server with a client that is the same in all versions. The SDK measures both.
    (_RAW, Cell(KIB)),
    (_SDK, Cell(KIB)),
    (_FAST, Cell(KIB)),
    (_RAW, Cell(KIB, 16)),
    (_SDK, Cell(KIB, 16)),
    (_FAST, Cell(KIB, 16)),
    (_RAW, Cell(MIB)),
    (replace(_SDK, client="sdk/inline"), Cell(MIB)),
    (Contestant("raw-stream", "stream, stock channel", OURS, "channels/stream"), Cell(256 * MIB)),
    (Contestant("sdk-stream", "stream, SDK, out=", OURS, "sdk/stream"), Cell(256 * MIB)),
    (Contestant("infer", "`infer_locally`", (), "sdk/local"), Cell(10_000, load=MIXED)),
    (Contestant("infer", "`infer_locally`", (), "sdk/local"), Cell(len(HOSTILE), load=ALL_HOSTILE)),
    (Contestant("alone", "InferShape one by one, SDK", OURS, "sdk/alone"), Cell(100, load=MIXED)),
    (Contestant("batch", "a batch through the RPC", OURS, "sdk/batch"), Cell(10_000, load=MIXED)),
)


def add_options(parser: ArgumentParser) -> None:
    """Adds the options for the base and for the selection of works."""
    parser.add_argument(
        "--against", required=True, metavar="PYTHON", help="interpreter of the base's environment, or its checkout"
    )
    parser.add_argument(
        "--works", default="", metavar="TEXT", help="measure only works whose name or cell contains this text"
    )


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each work: the base and the candidate."""
    works = [(work, cell) for work, cell in _WORKS if options.works in f"{work.label}, {cell}"]
    return [[Entry(replace(work, name=name, environment=name), cell) for name in (BASE, OWN)] for work, cell in works]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the one table."""
    head = ("work", "cell", "base, us", "candidate, us", "candidate / base", "verdict")
    return [Table("Candidate / base", head, [_build_row(*group) for group in groups])]


def _build_row(base: Entry, candidate: Entry) -> tuple[str, ...]:
    times = (entry.failure or format_number(median(entry.list_values("p50")) * 1e6) for entry in (base, candidate))
    ratios = candidate.compare(base, "p50")
    verdict = "too few rounds"
    if len(ratios) >= LEAST_ROUNDS:
        low, _, high = find_quartiles(ratios)
        verdict = "slower" if low > 1 else "faster" if high < 1 else "no difference"
    return (base.contestant.label, str(base.cell), *times, format_quartiles(ratios), verdict)
