"""What takes calls from the network: the seam to gRPC's core if it can serve, else the public parts of grpcio."""

from collections.abc import Callable, Sequence
from typing import Protocol

import grpc

from tensor_reshape.server.config import CORE, PUBLIC
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.grpc_core.probes import find_obstacle


class Server(Protocol):
    """A server: see `grpc_core.servers.Server`.

    Attributes:
        is_deaf: whether the thread that receives calls has ended although nobody has stopped the server.
        turns: how many turns that thread has made: at least one a second. None if that is not known.
        on_unknown: called with the name of a method that is called and that nobody serves.
    """

    on_unknown: Callable[[str], None]

    @property
    def turns(self) -> int | None:
        """See above."""

    @property
    def is_deaf(self) -> bool:
        """See above."""

    def add_port(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Binds an address, and returns its port; raises RuntimeError where it cannot be bound."""

    def start(self) -> None:
        """Starts to serve."""

    def stop(self) -> None:
        """Stops listening and refuses calls; those under way go on."""

    def cancel_calls(self) -> None:
        """Cancels the calls under way of a server that stops."""

    def wait(self, seconds: float) -> bool:
        """Awaits the end of all calls of a server that stops; returns whether they have ended."""


def choose_serving() -> str:
    """Returns CORE or PUBLIC: what serves calls in this process."""
    return PUBLIC if find_obstacle() else CORE


def build_server(services: Sequence[Service], options: Sequence[tuple[str, int]]) -> Server:
    """Returns a server that listens nowhere yet.

    Args:
        services: what is served.
        options: channel arguments of gRPC's core.
    """
    if choose_serving() == CORE:
        from tensor_reshape.server.handlers.servers import build_core_server  # noqa: PLC0415 - the probe comes first

        return build_core_server(services, options)
    from tensor_reshape.server.fallback import FallbackServer  # noqa: PLC0415 - hardly any server needs it

    return FallbackServer(services, options)
