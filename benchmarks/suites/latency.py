"""The smallest calls, beside a bare grpcio echo.

One client calls over a unix socket. The bare echo is a stock grpcio server that answers the request's bytes, called
through a stock channel: what grpcio itself costs. The others execute and infer an empty reshape: the same bytes
through a stock channel, and the SDK with all it does. A ratio is of two p50 of one round.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import UNIX, Cell
from benchmarks.contestants import OURS, Contestant, serve_peer
from benchmarks.rounds import Entry, Pace, format_spread
from benchmarks.tables import Table

PACE = Pace(rounds=20, seconds=0.3)
_CONTESTANTS = (
    Contestant("echo", "bare echo", serve_peer("channels"), "channels/echo"),
    Contestant("static-raw", "StaticReshape, stock channel", OURS, "channels/unary"),
    Contestant("infer-raw", "InferShape, stock channel", OURS, "channels/infer"),
    Contestant("static-sdk", "StaticReshape, SDK", OURS, "sdk/auto"),
    Contestant("infer-sdk", "InferShape, SDK", OURS, "sdk/infer"),
)


def add_options(parser: ArgumentParser) -> None:
    """There is nothing to choose."""
    del parser


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns the one group."""
    del options
    return [[Entry(one, Cell(0, transport=UNIX)) for one in _CONTESTANTS]]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the one table."""
    (group,) = groups
    echo = group[0]
    rows: list[tuple[str, ...]] = [
        (
            entry.contestant.label,
            format_spread(entry.list_values("p50"), 1e6),
            format_spread(entry.compare(echo, "p50")),
            format_spread(entry.list_values("p99"), 1e6),
        )
        for entry in group
    ]
    return [Table("Empty calls", ("", "p50 us", "/ bare echo", "p99 us"), rows)]
