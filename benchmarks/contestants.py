"""The contestants: who is measured, with which server and which client."""

from dataclasses import dataclass

from benchmarks.cells import GIB, KIB, MIB, TCP, TRANSPORTS, Cell

OWN = "own"
"""The environment of the suite itself; the others are folders of the peers."""

CPP = "cpp"
ABSENT = "not in this cell"
"""The status of a contestant that has no part in a cell: it lacks the transport, or the cell says nothing about it."""

_HERE = ("{python}", "-m")
_OURS = (*_HERE, "tensor_reshape.server", "--log-level", "warning", "--drain-seconds", "0", "--listen", "{address}")


@dataclass(frozen=True, slots=True)
class ServerKind:
    """How a server is started: its environment and its command, whose fields `processes` fills in."""

    environment: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A server behind a client.

    Attributes:
        name: the key in the results.
        label: what a reader calls it.
        server: a key of SERVERS.
        client: module of `benchmarks.clients` / variant.
        client_environment: where the client runs.
        transports: those that it can.
        smallest: the least size that it is measured at.
        largest: the greatest.
        clients: how many clients it is measured with; none: all.
        copies: bytes of memory that one byte of a tensor in flight takes, on both sides, about.
        slow_above: the size above which a call takes minutes, and is not waited for.
        is_drawn: whether it has a line in the plot.
    """

    name: str
    label: str
    server: str
    client: str
    client_environment: str = OWN
    transports: tuple[str, ...] = TRANSPORTS
    smallest: int = 0
    largest: int = GIB
    clients: tuple[int, ...] = ()
    copies: float = 6
    slow_above: int = GIB
    is_drawn: bool = False

    def find_obstacle(self, cell: Cell, memory_bytes: int) -> str | None:
        """Returns why the contestant is not measured in the cell, None where it is."""
        if cell.transport not in self.transports:
            return ABSENT
        if not self.smallest <= cell.size <= self.largest or (self.clients and cell.clients not in self.clients):
            return ABSENT
        if cell.clients * cell.size * self.copies > memory_bytes:
            return "skipped: memory"
        if cell.size > self.slow_above:
            return "skipped: minutes a call"
        return None


SERVERS = {
    "ours": ServerKind(OWN, _OURS),
    "ours-threads": ServerKind(OWN, (*_OURS, "--serving", "threads")),
    "ours-1": ServerKind(OWN, (*_OURS, "--workers", "1")),
    "ours-2": ServerKind(OWN, (*_OURS, "--workers", "2")),
    "stock": ServerKind(OWN, (*_HERE, "benchmarks.servers.messages", "{address}")),
    "stock-asyncio": ServerKind(OWN, (*_HERE, "benchmarks.servers.coroutines", "{address}")),
    "cpp": ServerKind(CPP, ("{folder}/cpp/reshape_server", "{address}")),
    "socket": ServerKind(OWN, (*_HERE, "benchmarks.servers.sockets", "{address}")),
    "arrow": ServerKind("arrow", (*_HERE, "benchmarks.servers.flights", "{address}")),
    "fastapi": ServerKind("fastapi", (*_HERE, "benchmarks.servers.routes", "{address}")),
    "mlserver": ServerKind("mlserver", (*_HERE, "benchmarks.servers.models", "{address}")),
    # The stub of Triton must load the libpython that the environment's standard library belongs to.
    "triton": ServerKind(
        "triton",
        ("/usr/bin/env", "LD_LIBRARY_PATH={libraries}", *_HERE, "benchmarks.servers.inferences", "{address}"),
    ),
}

CONTESTANTS = (
    Contestant(name="ours", label="tensor-reshape", server="ours", client="sdks/auto", copies=4, is_drawn=True),
    Contestant(name="ours-raw", label="ours, stock channel", server="ours", client="channels/own", largest=16 * MIB),
    Contestant(name="ours-inline", label="ours, inline", server="ours", client="sdks/inline", largest=16 * MIB),
    Contestant(
        name="ours-stream", label="ours, stream, out=", server="ours", client="sdks/stream", smallest=MIB, copies=2.5
    ),
    Contestant(name="ours-view", label="ours, view", server="ours", client="sdks/view", copies=0.2, is_drawn=True),
    Contestant(name="ours-empty", label="ours, empty call", server="ours", client="sdks/empty", copies=0),
    Contestant(name="ours-asyncio", label="ours, AsyncClient", server="ours", client="coroutines/sdk", copies=4),
    Contestant(
        name="ours-threads", label="ours, --serving threads", server="ours-threads", client="sdks/auto", copies=4
    ),
    Contestant(
        name="ours-raw-threads",
        label="ours, --serving threads, stock channel",
        server="ours-threads",
        client="channels/own",
        largest=16 * MIB,
    ),
    *(
        Contestant(
            name=f"ours-{workers}-{client.partition('/')[0]}",
            label=f"ours, --workers {workers}, {label}",
            server=f"ours-{workers}",
            client=client,
            transports=(TCP,),
            smallest=KIB,
            largest=64 * KIB,
            clients=(16, 64),
        )
        for client, label in (("channels/own", "stock channels"), ("loads/grpc", "h2load"))
        for workers in (1, 2)
    ),
    Contestant(name="stock", label="stock grpcio", server="stock", client="messages/sync", copies=12, is_drawn=True),
    Contestant(
        name="stock-asyncio",
        label="stock grpcio asyncio",
        server="stock-asyncio",
        client="coroutines/stock",
        copies=12,
        is_drawn=True,
    ),
    Contestant(name="cpp", label="C++ gRPC sync", server="cpp", client="channels/own", copies=8, is_drawn=True),
    Contestant(name="socket", label="raw socket copy", server="socket", client="sockets/copy", copies=2, is_drawn=True),
    Contestant(
        name="arrow",
        label="Arrow Flight DoExchange",
        server="arrow",
        client="flights/call",
        client_environment="arrow",
        is_drawn=True,
    ),
    Contestant(
        name="arrow-open",
        label="Arrow Flight, exchange kept open",
        server="arrow",
        client="flights/open",
        client_environment="arrow",
    ),
    Contestant(
        name="fastapi",
        label="FastAPI",
        server="fastapi",
        client="posts/httpx",
        client_environment="fastapi",
        is_drawn=True,
    ),
    Contestant(
        name="mlserver",
        label="MLServer",
        server="mlserver",
        client="inferences/mlserver",
        client_environment="mlserver",
        transports=(TCP,),
        copies=35,
        slow_above=256 * MIB,
        is_drawn=True,
    ),
    Contestant(
        name="triton",
        label="Triton (PyTriton)",
        server="triton",
        client="inferences/triton",
        client_environment="triton",
        transports=(TCP,),
        copies=25,
        is_drawn=True,
    ),
)


def find_contestant(name: str) -> Contestant:
    """Returns the contestant of that name.

    Raises:
        ValueError: there is none.
    """
    for contestant in CONTESTANTS:
        if contestant.name == name:
            return contestant
    message = f"no contestant is named {name!r}; there are {', '.join(item.name for item in CONTESTANTS)}"
    raise ValueError(message)
