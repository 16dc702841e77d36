"""Where a server listens, how it serves, and how it stops."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration

MAX_STOP_SECONDS = 3600
"""The longest that draining, or the grace, may take."""


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """How a server serves: where it listens, with how many processes and threads, and how it stops."""

    listen: Annotated[
        tuple[str, ...],
        Declaration(
            help="host:port (port 0: any free one) or unix:PATH; may be repeated, in the environment separated by "
            "spaces.",
            metavar="ADDRESS",
        ),
    ] = ("127.0.0.1:50051",)  # loopback: whoever serves a network says so

    health_listen: Annotated[
        str | None,
        Declaration(
            help="host:port or unix:PATH for health alone, in plain text whatever the others serve: for probes.",
            metavar="ADDRESS",
        ),
    ] = None

    http_listen: Annotated[
        str | None,
        Declaration(
            help="host:port where InferShape and BatchInferShape are answered over HTTP, in JSON, with a page to try "
            "them; over TLS where the others are. Needs the extra http.",
            metavar="ADDRESS",
        ),
    ] = None

    workers: Annotated[
        int,
        Declaration(
            help="Processes that share the ports; above 1, a supervisor replaces those that die or hang.",
            least=1,
            most=256,
        ),
    ] = 1

    threads: Annotated[
        int,
        Declaration(
            help="Long calls with tensors that each process works on at once; questions about shapes are not counted.",
            least=1,
            most=1024,
        ),
    ] = 16

    io_engine: Annotated[
        str,
        Declaration(
            help="What of gRPC reads the connections: polling is faster for small calls, but lets any caller delay the "
            "others; auto takes it where every address is of this machine alone, else event.",
            choices=("auto", "event", "polling"),
        ),
    ] = "auto"

    shared_memory_dir: Annotated[
        Path | None,
        Declaration(
            help="Any caller of the Open Inference Protocol may have tensors read from files in this directory, and "
            "written to them: those of the server's user, all of them. With one worker.",
            metavar="DIRECTORY",
            is_directory=True,
        ),
    ] = None

    drain_seconds: Annotated[
        float,
        Declaration(help="NOT_SERVING is announced so long before stopping.", least=0, most=MAX_STOP_SECONDS),
    ] = 0.5  # with the grace, and the second in which clients are asked to leave, below the 10 s that containers get

    shutdown_grace_seconds: Annotated[
        float, Declaration(help="Calls under way may take so long after that.", least=0, most=MAX_STOP_SECONDS)
    ] = 8.0
