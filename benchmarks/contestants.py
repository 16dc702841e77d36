"""Contestants: a server behind a client, both in one environment; each suite says which take part in it."""

from dataclasses import dataclass

from benchmarks.cells import GIB, MIB, TCP, UNIX, Cell

OWN = "own"
"""The environment of the suite itself; the others are folders that `benchmarks/install-peers` fills."""

CPP = "cpp"
"""The folder of the C++ programs, whose Python client runs in our own environment."""

EXPERIMENT, REFUSED = "-event_engine_client", "event_engine_client"
"""What GRPC_EXPERIMENTS says in a client's process: the experiment, or that it is not wanted.

The SDK sets the experiment by itself where the variable is not set; the default of every other client is without."""

_OPTIONS = ("--log-level", "warning", "--drain-seconds", "0", "--listen", "{address}")
OURS = ("{python}", "-m", "tensor_reshape.server", *_OPTIONS)


def serve_peer(name: str) -> tuple[str, ...]:
    """Returns the command of the server in a module of `benchmarks.peers`."""
    return ("{python}", "-m", "benchmarks.peers", name, "{address}")


@dataclass(frozen=True, slots=True, eq=False)
class Contestant:
    """A server behind a client.

    Attributes:
        name: by which `--only` and the bars know it.
        label: what a reader calls it.
        server: the command, whose fields `processes` fills in; none: the client answers by itself.
        client: module of `benchmarks.peers` / variant, with the same fields.
        environment: where both run; the C++ server's Python client runs in our own.
        smallest: the least size that it is measured at.
        largest: the greatest.
        clients: how many it can be; none: any number.
        transports: those that it can.
        copies: bytes of memory that one byte of a tensor in flight takes, on both sides, about.
        experiments: GRPC_EXPERIMENTS of the client; "": not set, whatever this process has.
    """

    name: str
    label: str
    server: tuple[str, ...]
    client: str
    environment: str = OWN
    smallest: int = 0
    largest: int = GIB
    clients: tuple[int, ...] = ()
    transports: tuple[str, ...] = (TCP, UNIX)
    copies: float = 6
    experiments: str = ""

    def takes_part(self, cell: Cell) -> bool:
        """Tells whether the contestant can do what the cell asks, and the cell says something about it."""
        is_counted = not self.clients or cell.clients in self.clients
        return is_counted and cell.transport in self.transports and self.smallest <= cell.size <= self.largest


_THREADS = (*OURS, "--serving", "threads")
_EVENT = (*OURS, "--engine", "event")
_CPP = ("{folder}/reshape_server", "{address}")
_RAW = "channels/unary"
TRANSPORT = (
    Contestant("ours", "tensor-reshape", OURS, "sdk/auto", copies=4),
    Contestant("ours-refused", "ours, without the experiment", OURS, "sdk/auto", copies=4, experiments=REFUSED),
    Contestant("ours-stock", 'ours, calls="stock"', OURS, "sdk/stock", copies=4),
    Contestant("ours-raw", "ours, stock channel", OURS, _RAW, largest=16 * MIB),
    Contestant("ours-inline", "ours, inline", OURS, "sdk/inline", largest=16 * MIB),
    Contestant("ours-stream", "ours, stream, out=", OURS, "sdk/stream", smallest=MIB, copies=2.5),
    Contestant("ours-view", "ours, view", OURS, "sdk/view", copies=0.2),
    Contestant("ours-empty", "ours, empty call", OURS, "sdk/empty", copies=0),
    Contestant("ours-asyncio", "ours, AsyncClient", OURS, "sdk_asyncio/auto", copies=4),
    Contestant("ours-event", "ours, --engine event", _EVENT, "sdk/auto", copies=4),
    Contestant("ours-threads", "ours, --serving threads", _THREADS, "sdk/auto", copies=4),
    Contestant("ours-raw-threads", "ours, --serving threads, stock channel", _THREADS, _RAW, largest=16 * MIB),
    Contestant("stock", "stock grpcio", serve_peer("stock"), "stock/unary", copies=12),
    Contestant(
        "stock-experiment",
        "stock grpcio, with the experiment",
        serve_peer("stock"),
        "stock/unary",
        copies=12,
        experiments=EXPERIMENT,
    ),
    Contestant("stock-asyncio", "stock grpcio asyncio", serve_peer("stock_asyncio"), "stock_asyncio/unary", copies=12),
    Contestant("cpp", "C++ gRPC sync", _CPP, _RAW, CPP, copies=8),
    Contestant(
        "cpp-experiment", "C++ gRPC sync, with the experiment", _CPP, _RAW, CPP, copies=8, experiments=EXPERIMENT
    ),
    Contestant(
        "cpp-stream",
        "C++ gRPC stream, both sides",
        _CPP,
        "cpp/{folder}/stream_client:messages",
        CPP,
        smallest=MIB,
        clients=(1,),
    ),
    Contestant(
        "cpp-slices",
        "C++ gRPC stream, both sides, slices",
        (*_CPP, "slices"),
        "cpp/{folder}/stream_client:slices",
        CPP,
        smallest=MIB,
        clients=(1,),
    ),
    Contestant("socket", "raw socket copy", serve_peer("sockets"), "sockets/copy", copies=2),
    Contestant("arrow", "Arrow Flight DoExchange", serve_peer("arrow"), "arrow/call", "arrow"),
    Contestant("arrow-open", "Arrow Flight, exchange kept open", serve_peer("arrow"), "arrow/open", "arrow"),
    Contestant("fastapi", "FastAPI", serve_peer("fastapi"), "fastapi/post", "fastapi"),
    Contestant(  # a call of 1 GiB takes it minutes
        "mlserver",
        "MLServer",
        serve_peer("mlserver"),
        "open_inference/unary",
        "mlserver",
        largest=256 * MIB,
        transports=(TCP,),
        copies=35,
    ),
    Contestant(  # the stub of Triton must load the libpython that the environment's standard library belongs to
        "triton",
        "Triton (PyTriton)",
        ("/usr/bin/env", "LD_LIBRARY_PATH={folder}", *serve_peer("triton")),
        "open_inference/unary",
        "triton",
        transports=(TCP,),
        copies=25,
    ),
)
"""Who sends a tensor and gets its bytes back under another shape. What is first in a table, the rest is beside."""

_LOAD = "h2load/unary"
SERVERS = (
    Contestant("served", "tensor-reshape", OURS, _LOAD),
    Contestant("served-event", "ours, --engine event", _EVENT, _LOAD),
    Contestant("served-threads", "ours, --serving threads", _THREADS, _LOAD),
    Contestant("served-workers", "ours, --workers 2", (*OURS, "--workers", "2"), _LOAD),
    Contestant("served-cpp", "C++ gRPC sync", _CPP, _LOAD, CPP),
    Contestant("served-stock", "stock grpcio", serve_peer("stock"), _LOAD),
)
"""Servers behind h2load, which costs the machine next to nothing."""
