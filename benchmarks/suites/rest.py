"""The Open Inference Protocol over REST, compared with the same calls over gRPC.

Both clients send prepared bytes. The REST client is the one of the standard library. A ratio is the duration of a call
over REST / over gRPC, from two measurements of one round.
"""

from argparse import ArgumentParser, Namespace
from statistics import median

from benchmarks.cells import KIB, MIB, Cell
from benchmarks.contestants import OURS, Contestant
from benchmarks.rounds import Entry, Pace, format_number, format_spread
from benchmarks.tables import Table

PACE = Pace(rounds=15, seconds=0.3, measures_memory=False)
_GRPC = Contestant("grpc", "ModelInfer over gRPC", OURS, "inference/grpc")
_REST = Contestant(
    "rest", "ModelInfer over REST", (*OURS[:-1], "127.0.0.1:0", "--http-listen", OURS[-1]), "inference/rest"
)


def add_options(_parser: ArgumentParser) -> None:
    """Adds no options."""


def list_groups(_options: Namespace) -> list[list[Entry]]:
    """Returns a group for each size."""
    return [[Entry(_GRPC, Cell(size)), Entry(_REST, Cell(size))] for size in (KIB, MIB, 16 * MIB)]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the one table."""
    return [Table("REST / gRPC", ("tensor", "gRPC, us", "REST, us", "REST / gRPC"), list(map(_build_row, groups)))]


def _build_row(group: list[Entry]) -> tuple[str, ...]:
    grpc, rest = group
    times = (entry.failure or format_number(median(entry.list_values("p50")) * 1e6) for entry in group)
    return (str(grpc.cell), *times, format_spread(rest.compare(grpc, "p50")))
