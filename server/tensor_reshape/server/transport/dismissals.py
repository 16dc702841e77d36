"""How clients leave before the server stops: nobody listens any more, and who is connected is told to go.

grpcio can only stop listening, send GOAWAY and refuse calls all at once, so that calls which are on their way end as
CANCELLED. Each of the first two can be had by itself on the socket: a listener that is shut down listens no more, and
on a connection that carries no call a GOAWAY frame may be written between those of the transport.

Within TLS nothing can be written from outside. There the connection is closed at such a moment. A call that crosses
with that ends as UNAVAILABLE, which clients send again that have a policy for anything, and not as CANCELLED, which
they do not: without this, such clients lost 6 of 25,000 calls over five restarts.

On other systems than Linux all is left to grpcio.
"""

import socket
from collections.abc import Callable, Collection
from contextlib import suppress
from fcntl import ioctl
from functools import partial

from tensor_reshape.server.transport.sockets import find_connections, find_listeners, name_peer

HEARING_SECONDS = 0.1
"""How long a client has to hear that it should leave, which takes it one way through the network."""

_SIOCOUTQ = 0x5411  # of Linux: how many bytes the peer has not acknowledged
# RFC 9113, 6.8: a server that ends in good order first says that it will, with the greatest number of a stream there
# is: the client opens no further one, and all that it has opened are served.
_GOAWAY = bytes.fromhex("000008 07 00 00000000 7fffffff 00000000")


def close_listeners(ports: Collection[int]) -> bool:
    """Has nobody listen on these TCP ports any more, in this process; returns whether that could be done."""
    closed = False
    for found in find_listeners(ports):
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)
            closed = True
    return closed


class Dismissal:
    """Tells clients that they should open no further call on their connections, or closes these."""

    def __init__(
        self, ports: Collection[int], do_if_idle: Callable[[str, Callable[[], bool]], None], *, closes: bool = False
    ) -> None:
        """Begins with none told.

        Args:
            ports: the TCP ports that they came to.
            do_if_idle: does what it is given if a connection, by the name that grpcio gives it, carries no call, and
                lets none begin until that says that it has been done. Only then is there no frame of which the
                transport has written a part: what is written here would land within it.
            closes: whether to close the connections, since they are encrypted.
        """
        self._ports = frozenset(ports)
        self._do_if_idle = do_if_idle
        self._closes = closes
        self._told_at: dict[str, float] = {}

    def advance(self, now: float) -> bool:
        """Tells those that can be told, and returns whether all who are still there have had time to hear it."""
        waits = False
        for _, found in find_connections(self._ports):
            with suppress(OSError):  # it has closed the connection
                name = name_peer(found)
                if name not in self._told_at:
                    self._do_if_idle(name, partial(self._tell, found, name, now))
                waits |= now - self._told_at.get(name, now) < HEARING_SECONDS
        return not waits

    def _tell(self, found: socket.socket, name: str, now: float) -> bool:
        if _count_unsent(found):
            return False
        if self._closes:
            found.shutdown(socket.SHUT_RDWR)  # not its descriptor, which is gRPC's: that sees the end, and closes it
        else:
            found.send(_GOAWAY, socket.MSG_DONTWAIT)
        self._told_at[name] = now
        return True


def _count_unsent(found: socket.socket) -> int:
    return int.from_bytes(ioctl(found, _SIOCOUTQ, bytes(4)), "little")
