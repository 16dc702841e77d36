"""The smallest calls, beside a bare grpcio echo and beside batches.

One client calls over a unix socket. The bare echo is a stock grpcio server that answers the request's bytes, called
through a stock channel: what grpcio itself costs. The others execute and infer an empty reshape: the same bytes
through a stock channel, and the SDK with all it does. A ratio is of two p50 of one round.

Then one client infers shapes through the SDK, over TCP, while two processes send nothing but batches: of 10,000
questions of models, or of 1,000 hostile ones. Its questions all differ, and are answered at once or need a search.
"""

from argparse import ArgumentParser, Namespace

from benchmarks.cells import UNIX, Cell
from benchmarks.contestants import OURS, Contestant, serve_peer
from benchmarks.peers.batches import PLAIN, QUIET, SEARCHED
from benchmarks.questions import ALL_HOSTILE, MIXED
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
# Each in a group of its own: its batches would be sent beside the others of the group as well.
_BESIDE_BATCHES = tuple(
    Contestant(f"infer-{kind}-{load}", f"{kind}, beside {label}", OURS, f"batches/{load}-{kind}")
    for load, label in ((QUIET, "nothing"), (MIXED, "batches"), (ALL_HOSTILE, "hostile batches"))
    for kind in (PLAIN, SEARCHED)
)


def add_options(parser: ArgumentParser) -> None:
    """There is nothing to choose."""
    del parser


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns the group of empty calls, and a group for each of those beside batches."""
    del options
    empty = [Entry(one, Cell(0, transport=UNIX)) for one in _CONTESTANTS]
    return [empty, *([Entry(one, Cell(0))] for one in _BESIDE_BATCHES)]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns a table of the empty calls, and one of those beside batches; where either is measured."""
    beside = [entry for group in groups for entry in group if entry.contestant in _BESIDE_BATCHES]
    empty = [_tell_empty_calls(group) for group in groups if group[0].contestant in _CONTESTANTS]
    return [*empty, _tell_questions(beside)] if beside else empty


def _tell_empty_calls(group: list[Entry]) -> Table:
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
    return Table("Empty calls", ("", "p50 us", "/ bare echo", "p99 us"), rows)


def _tell_questions(entries: list[Entry]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            entry.contestant.label,
            entry.failure or format_spread(entry.list_values("p50"), 1e3),
            format_spread(entry.list_values("p99"), 1e3),
        )
        for entry in entries
    ]
    return Table("InferShape beside batches", ("", "p50 ms", "p99 ms"), rows)
