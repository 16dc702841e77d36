"""Calls over HTTP, compared with gRPC and with a bare echo.

All clients send prepared bytes. The HTTP client is the one of the standard library. The echo is an ASGI application
that returns the body of a request, on uvicorn and httptools, like the project's HTTP port. A ratio is the duration of a
call / the duration of a call over gRPC, with the echo, or with the base (`--against`), from two measurements of one
round.
"""

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from statistics import median

from benchmarks.cells import KIB, MIB, Cell
from benchmarks.contestants import OURS, Contestant, serve_peer
from benchmarks.rounds import Entry, Pace, format_number, format_spread
from benchmarks.suites.ab import BASE
from benchmarks.tables import Table

PACE = Pace(rounds=15, seconds=0.3, measures_memory=False)
_SERVER = (*OURS[:-1], "127.0.0.1:0", "--http-listen", OURS[-1])
_GRPC = Contestant("grpc", "gRPC", OURS, "channels/unary")
_ECHO = Contestant("echo", "echo", serve_peer("echo"), "http_calls/echo")
_CALLS = (
    Contestant("inference", "REST, bytes", _SERVER, "http_calls/inference"),
    Contestant("proto", "application/proto", _SERVER, "http_calls/proto"),
    Contestant("json", "application/json, base64", _SERVER, "http_calls/json"),
)


def add_options(parser: ArgumentParser) -> None:
    """Adds the option for the base."""
    parser.add_argument(
        "--against", metavar="PYTHON", help="interpreter of a base's environment, or its checkout; default: no base"
    )


def list_groups(options: Namespace) -> list[list[Entry]]:
    """Returns a group for each size."""
    bases = [replace(call, name=_name_base(call), environment=BASE) for call in _CALLS] if options.against else []
    return [[Entry(one, Cell(size)) for one in (_GRPC, _ECHO, *_CALLS, *bases)] for size in (KIB, MIB, 16 * MIB)]


def build_tables(groups: list[list[Entry]]) -> list[Table]:
    """Returns the one table."""
    head = ("tensor", "call", "us", "call / gRPC", "call / echo", "call / base")
    return [Table("Calls over HTTP", head, [row for group in groups for row in _build_rows(group)])]


def _build_rows(group: list[Entry]) -> list[tuple[str, ...]]:
    entries = {entry.contestant.name: entry for entry in group}
    rows = []
    for entry in group:
        if entry.contestant.environment == BASE:
            continue
        under = [entries.get(name) for name in (_GRPC.name, _ECHO.name, _name_base(entry.contestant))]
        ratios = ["-" if one is None or one is entry else format_spread(entry.compare(one, "p50")) for one in under]
        time = entry.failure or format_number(median(entry.list_values("p50")) * 1e6)
        rows.append((str(entry.cell), entry.contestant.label, time, *ratios))
    return rows


def _name_base(call: Contestant) -> str:
    return f"{BASE}-{call.name}"
