"""Chooses the server class, which is the server on gRPC's core or, if necessary, the fallback server."""

from collections.abc import Callable, Sequence
from typing import Protocol

import grpc

from tensor_reshape.server.config import CORE, PUBLIC
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.grpc_core.probes import find_obstacle


class Server(Protocol):
    """The interface of a server (see `grpc_core.servers.Server`).

    Attributes:
        has_stopped_receiving: whether the thread that receives calls has ended although the server was not stopped.
        turns: the number of loop iterations of the thread that receives calls, or None if it is unknown. This thread
            makes at least one iteration a second.
        on_unknown: the function that is called with the name of each unknown method that a client calls.
    """

    on_unknown: Callable[[str], None]

    @property
    def turns(self) -> int | None:
        """See above."""

    @property
    def has_stopped_receiving(self) -> bool:
        """See above."""

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address and returns its port. Raises RuntimeError if the address cannot be bound."""

    def start(self) -> None:
        """Starts to accept calls."""

    def stop(self) -> None:
        """Stops listening and rejects new calls. Running calls continue."""

    def cancel_calls(self) -> None:
        """Cancels the running calls of a stopping server."""

    def wait(self, seconds: float) -> bool:
        """Waits up to `seconds` for the calls of a stopping server. Returns whether all calls have ended."""


def choose_serving() -> str:
    """Returns the gRPC interface that this process uses, which is CORE or PUBLIC."""
    return PUBLIC if find_obstacle() else CORE


def build_server(services: Sequence[Service], options: Sequence[tuple[str, int]]) -> Server:
    """Returns a server without addresses.

    Args:
        services: the services to serve.
        options: channel arguments of gRPC's core.
    """
    if choose_serving() == CORE:
        from tensor_reshape.server.handlers.servers import build_core_server  # noqa: PLC0415 - only after the probe has succeeded

        return build_core_server(services, options)
    from tensor_reshape.server.fallback import FallbackServer  # noqa: PLC0415 - rarely needed

    return FallbackServer(services, options)
