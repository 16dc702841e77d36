"""Keeps room for new connections: when three quarters of what may be open on a port are, its quietest are closed.

gRPC's core refuses connections above the limit, whoever comes then. So a stranger who opens them quickly, and leaves
them idle, would shut everybody out until they reach the limits of time. Here the quietest of the address that has the
most go first. Quiet is one on which nothing has been sent or received for a while, whatever the server works on for it:
that happens at three quarters of what may be open alone. Linux alone tells what is quiet.
"""

import socket
import struct
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from tensor_reshape.server.transport.sockets import count_descriptors, find_connections, hold

QUIET_SECONDS = 0.5
"""How long a connection must have been silent, both ways, until it may be closed."""

_LAST_SENT = struct.Struct("=44xI4xI")  # of struct tcp_info: the milliseconds since data were sent, and received
_INFO_BYTES = 56


@dataclass(frozen=True, slots=True)
class Connection:
    """One connection of a caller.

    Attributes:
        descriptor: its number in this process, which it may have lost since.
        peer: the caller's IP address.
        quiet_seconds: how long it has been silent.
    """

    descriptor: int
    peer: str
    quiet_seconds: float


class ConnectionKeeper:
    """Closes quiet connections when there are many."""

    def __init__(self, ports: Collection[int], capacity: int) -> None:
        """Looks after the connections of a server.

        Args:
            ports: the TCP ports that it listens on.
            capacity: how many connections it takes on each.
        """
        self._ports = frozenset(ports)
        self._most = 3 * capacity // 4

    def look(self) -> int:
        """Closes quiet connections until a quarter of each port is free, and returns how many it has closed."""
        if count_descriptors() <= self._most:
            return 0
        # Each port by itself, as gRPC's core counts them: room at another one lets nobody in at one that is full.
        by_port = defaultdict[int, list[Connection]](list)
        for port, connection in self._find():
            by_port[port].append(connection)
        found = by_port.values()
        victims = [victim for ones in found for victim in choose_victims(ones, len(ones) - self._most)]
        return sum(map(self._close, victims))

    def _find(self) -> Iterator[tuple[int, Connection]]:
        for number, found in find_connections(self._ports):
            with suppress(OSError):  # it has been closed
                info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                quiet_seconds = min(_LAST_SENT.unpack(info)) / 1000
                yield found.getsockname()[1], Connection(number, found.getpeername()[0], quiet_seconds)

    def _close(self, connection: Connection) -> bool:
        """Ends a connection, not its descriptor, which is gRPC's: that sees the end, and closes it."""
        with suppress(OSError), hold(connection.descriptor, self._ports) as held:
            if held.getpeername()[0] == connection.peer:
                held.shutdown(socket.SHUT_RDWR)
                return True
        return False


def choose_victims(connections: list[Connection], count: int) -> list[Connection]:
    """Returns the connections to close: of the peers with the most, the quietest, `count` of them at most."""
    held = Counter(connection.peer for connection in connections)
    share = max(held.values(), default=0) // 2  # who has less is not who takes the room
    quiet = [one for one in connections if one.quiet_seconds >= QUIET_SECONDS and held[one.peer] >= share]
    return sorted(quiet, key=lambda one: -one.quiet_seconds)[: max(0, count)]
