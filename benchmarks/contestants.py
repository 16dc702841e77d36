"""Contestants. A contestant is a server and a client in one environment; each suite names its contestants."""

from dataclasses import dataclass

OWN = "own"
"""The environment of the suite itself. `benchmarks/install-peers` makes the others in folders."""

CPP = "cpp"
"""The folder of the C++ programs. Their Python client runs in our own environment."""

EXPERIMENT, REJECTED = "-event_engine_client", "event_engine_client"
"""GRPC_EXPERIMENTS of a client's process: the value of the SDK's `use_fast_polling`, or none.

By default, clients run without it. If the variable is set, no version of the SDK changes it."""

_OPTIONS = ("--log-level", "warning", "--drain-seconds", "0", "--listen", "{address}")
OURS = ("{python}", "-m", "tensor_reshape.server", *_OPTIONS)


@dataclass(frozen=True, slots=True, eq=False)
class Contestant:
    """A server and its client.

    Attributes:
        name: the name for `--only` and the bars.
        label: the name in reports.
        server: the command, with fields that `processes` fills in; empty if the client needs no server.
        client: module of `benchmarks.peers` / variant, with the same fields.
        environment: the environment of both; the Python client of the C++ server runs in our own.
        copies: the approximate bytes of memory on both sides for each byte of a tensor in flight.
        experiments: GRPC_EXPERIMENTS of the client; "": not set, whatever this process has.
    """

    name: str
    label: str
    server: tuple[str, ...]
    client: str
    environment: str = OWN
    copies: float = 6
    experiments: str = ""


def serve_peer(name: str) -> tuple[str, ...]:
    """Returns the command of the server in a module of `benchmarks.peers`."""
    return ("{python}", "-m", "benchmarks.peers", name, "{address}")


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
    Contestant("ours-network", "ours, on a network address", _NETWORK, "sdk/auto", copies=4),
    Contestant("stock", "stock grpcio", serve_peer("stock"), _STOCK, copies=12),
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
    Contestant("served-event", "ours, event engine", _EVENT, _LOAD),
    Contestant("served-cpp", _CPP_LABEL, _CPP, _LOAD, CPP),
    Contestant("served-stock", "stock grpcio", serve_peer("stock"), _LOAD),
)
"""Servers that h2load calls, because h2load uses almost no processor time."""
