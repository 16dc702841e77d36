"""Contestants and cells.

A contestant is a server and a client in one environment; each suite names its contestants. A cell is a load (a tensor
or shape queries) of a size, and a number of concurrent clients.
"""

from dataclasses import dataclass
from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TENSOR = "tensor"
_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB}


class Cell(NamedTuple):
    """A load, its size and its clients. Contestants are compared only within a cell."""

    size: int  # the bytes of a tensor (a multiple of 8: float32 of shape (2, n)), or the number of queries
    clients: int = 1  # the number of concurrent clients
    load: str = TENSOR  # `TENSOR`, or the name of queries in `benchmarks.questions`
    processes: int = 1  # the number of processes with clients, each with the same number of them
    streams: int = 1  # the number of calls that each client of h2load makes at a time
    group: str = ""  # the name of contestants that are measured apart from others with the same tensor

    def __str__(self) -> str:
        """Returns the title of the cell: "1 KiB, 16 clients, tcp", or "1,000 questions, mixed"."""
        if self.load != TENSOR:
            return f"{self.size:,} question{'s' * (self.size > 1)}, {self.load}"
        group = f"{self.group}: " if self.group else ""
        where = f" in {self.processes} processes" if self.processes > 1 else ""
        calls = f" with {self.streams} calls each" if self.streams > 1 else ""
        unit, factor = next((unit, factor) for unit, factor in _UNITS.items() if self.size % factor == 0)
        return (
            f"{group}{self.size // factor} {unit}, {self.clients} client{'s' * (self.clients > 1)}{where}{calls}, tcp"
        )


OWN = "own"
"""The environment of the suite itself. `benchmarks/install-peers` makes the others in folders."""

REST, QUERIES, SERVED = "REST", "Queries and views", "Server under h2load"
"""The groups of cells."""

CPP = "cpp"
"""The folder of the C++ programs. Their Python client runs in our own environment."""

EXPERIMENT, REJECTED = "-event_engine_client", "event_engine_client"
"""GRPC_EXPERIMENTS of a client's process: the value of the SDK's `use_fast_polling`, or none.

By default, clients run without it. If the variable is set, no version of the SDK changes it."""

_OPTIONS = ("--log-level", "warning", "--drain-seconds", "0", "--listen", "{address}")
OURS = ("{python}", "-m", "tensor_reshape.server", *_OPTIONS)
_WORKERS = (*OURS, "--workers", "auto", "--log-level", "info")
_HTTP = ("{python}", "-m", "tensor_reshape.cli", "http", *_OPTIONS)
_ALL_SERVE = "INFO serving"


@dataclass(frozen=True, slots=True, eq=False)
class Contestant:
    """A server and its client."""

    name: str  # the name for `--only` and the bars
    label: str  # the name in reports
    server: tuple[str, ...]  # the command, with fields that `processes` fills in; empty if the client needs no server
    client: str  # module of `benchmarks.peers` / variant, with the same fields
    environment: str = OWN  # the environment of both; the Python client of the C++ server runs in our own
    copies: float = 6  # the approximate bytes of memory on both sides for each byte of a tensor in flight
    experiments: str = ""  # GRPC_EXPERIMENTS of the client; "": not set, whatever this process has
    ready: str = ""  # the text that the server logs when all its processes serve; "": it has only one process


def serve_peer(name: str) -> tuple[str, ...]:
    """Returns the command of the server in a module of `benchmarks.peers`."""
    return ("{python}", "-c", f"from benchmarks.peers import {name}; {name}.serve('{{address}}')")


_EVENT = ("env", "GRPC_EXPERIMENTS=event_engine_listener", *OURS)
_NETWORK = (*OURS[:-1], "0.0.0.0:{port}")
_CPP = ("{folder}/reshape_server", "{address}")
_CPP_CLIENT = "cpp/{folder}/stream_client"
_RAW, _STOCK, _LOAD = "channels/unary", "stock/unary", "h2load/unary"
_CPP_LABEL = "C++ gRPC sync"
CONTESTANTS = (
    Contestant("ours", "tensor-reshape", OURS, "sdk/auto", copies=4),
    Contestant("ours-experiment", "ours, with the experiment", OURS, "sdk/auto", copies=4, experiments=EXPERIMENT),
    Contestant("ours-stream", "ours, stream, out=", OURS, "sdk/stream", copies=2.5),
    Contestant("ours-view", "ours, view", OURS, "sdk/view", copies=0.2),
    Contestant("ours-empty", "ours, empty call", OURS, "sdk/empty", copies=0),
    Contestant("ours-shapes", "ours, 10,000 shapes", OURS, "sdk/shapes", copies=4),
    Contestant("ours-query", "ours, a shape query", OURS, "sdk/query", copies=0),
    Contestant("ours-rest", "ours, REST", _HTTP, "rest/ours"),
    Contestant("ours-workers", "ours, `--workers auto`", _WORKERS, "sdk/connections", copies=4, ready=_ALL_SERVE),
    Contestant("ours-network", "ours, on a network address", _NETWORK, "sdk/auto", copies=4),
    Contestant("stock", "stock grpcio", serve_peer("stock"), _STOCK, copies=12),
    Contestant("stock-query", "stock grpcio, a shape query", serve_peer("stock"), "stock/query", copies=0),
    Contestant("starlette", "Starlette, an echo of the JSON", serve_peer("rest"), "rest/echo", "starlette"),
    Contestant("cpp", _CPP_LABEL, _CPP, _RAW, CPP, copies=8),
    Contestant("cpp-experiment", f"{_CPP_LABEL}, with the experiment", _CPP, _RAW, CPP, 8, EXPERIMENT),
    Contestant("cpp-stream", "C++ gRPC stream, both sides", _CPP, f"{_CPP_CLIENT}:messages", CPP),
    Contestant("cpp-slices", "C++ gRPC stream, both sides, slices", (*_CPP, "slices"), f"{_CPP_CLIENT}:slices", CPP),
    Contestant("socket", "raw socket copy", serve_peer("sockets"), "sockets/copy", copies=2),
    Contestant("arrow", "Arrow Flight DoExchange", serve_peer("arrow"), "arrow/call", "arrow"),
)
"""The contestants that send a tensor, and receive its bytes in another shape."""

SERVERS = (
    Contestant("served", "tensor-reshape", OURS, _LOAD),
    Contestant("served-workers", "ours, `--workers auto`", _WORKERS, _LOAD, ready=_ALL_SERVE),
    Contestant("served-event", "ours, event engine", _EVENT, _LOAD),
    Contestant("served-cpp", _CPP_LABEL, _CPP, _LOAD, CPP),
    Contestant("served-stock", "stock grpcio", serve_peer("stock"), _LOAD),
)
"""Servers that h2load calls, because h2load uses almost no processor time."""
