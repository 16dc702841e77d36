"""Contestants: a server behind a client, both in one environment; each suite says which take part in it."""

from dataclasses import dataclass

from benchmarks.cells import GIB, KIB, MIB, TCP, UNIX, Cell

OWN = "own"
"""The environment of the suite itself; the others are folders that `benchmarks/install-peers` fills."""

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
        client: module of `benchmarks.peers` / variant.
        environment: where both run; the C++ server's client runs in our own.
        smallest: the least size that it is measured at.
        largest: the greatest.
        clients: how many clients it is measured with; none: any number.
        transports: those that it can.
        copies: bytes of memory that one byte of a tensor in flight takes, on both sides, about.
        drawn: whether it has a line in the plot.
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
    drawn: bool = False

    def takes_part(self, cell: Cell) -> bool:
        """Tells whether the contestant can do what the cell asks, and the cell says something about it."""
        is_counted = not self.clients or cell.clients in self.clients
        return is_counted and cell.transport in self.transports and self.smallest <= cell.size <= self.largest


TRANSPORT = (
    Contestant("ours", "tensor-reshape", OURS, "sdk/auto", copies=4, drawn=True),
    Contestant("ours-raw", "ours, stock channel", OURS, "channels/unary", largest=16 * MIB),
    Contestant("ours-inline", "ours, inline", OURS, "sdk/inline", largest=16 * MIB),
    Contestant("ours-stream", "ours, stream, out=", OURS, "sdk/stream", smallest=MIB, copies=2.5),
    Contestant("ours-view", "ours, view", OURS, "sdk/view", copies=0.2, drawn=True),
    Contestant("ours-empty", "ours, empty call", OURS, "sdk/empty", copies=0),
    Contestant("ours-asyncio", "ours, AsyncClient", OURS, "sdk_asyncio/auto", copies=4),
    Contestant("ours-threads", "ours, --serving threads", (*OURS, "--serving", "threads"), "sdk/auto", copies=4),
    Contestant(
        "ours-raw-threads",
        "ours, --serving threads, stock channel",
        (*OURS, "--serving", "threads"),
        "channels/unary",
        largest=16 * MIB,
    ),
    Contestant("stock", "stock grpcio", serve_peer("stock"), "stock/unary", copies=12, drawn=True),
    Contestant(
        "stock-asyncio",
        "stock grpcio asyncio",
        serve_peer("stock_asyncio"),
        "stock_asyncio/unary",
        copies=12,
        drawn=True,
    ),
    Contestant(
        "cpp", "C++ gRPC sync", ("{folder}/reshape_server", "{address}"), "channels/unary", "cpp", copies=8, drawn=True
    ),
    Contestant("socket", "raw socket copy", serve_peer("sockets"), "sockets/copy", copies=2, drawn=True),
    Contestant("arrow", "Arrow Flight DoExchange", serve_peer("arrow"), "arrow/call", "arrow", drawn=True),
    Contestant("arrow-open", "Arrow Flight, exchange kept open", serve_peer("arrow"), "arrow/open", "arrow"),
    Contestant("fastapi", "FastAPI", serve_peer("fastapi"), "fastapi/post", "fastapi", drawn=True),
    Contestant(  # a call of 1 GiB takes it minutes
        "mlserver",
        "MLServer",
        serve_peer("mlserver"),
        "open_inference/unary",
        "mlserver",
        largest=256 * MIB,
        transports=(TCP,),
        copies=35,
        drawn=True,
    ),
    Contestant(  # the stub of Triton must load the libpython that the environment's standard library belongs to
        "triton",
        "Triton (PyTriton)",
        ("/usr/bin/env", "LD_LIBRARY_PATH={folder}", *serve_peer("triton")),
        "open_inference/unary",
        "triton",
        transports=(TCP,),
        copies=25,
        drawn=True,
    ),
)
"""Who sends a tensor and gets its bytes back under another shape; h2load costs the machine next to nothing."""

WORKERS = tuple(
    Contestant(
        f"ours-{workers}-{client}",
        f"ours, --workers {workers}, {label}",
        (*OURS, "--workers", str(workers)),
        module,
        smallest=KIB,
        largest=64 * KIB,
        clients=(16, 64),
        transports=(TCP,),
    )
    for client, label, module in (
        ("channels", "stock channels", "channels/unary"),
        ("h2load", "h2load", "h2load/unary"),
    )
    for workers in (1, 2)
)
