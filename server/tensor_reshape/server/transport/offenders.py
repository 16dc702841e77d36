"""Closes connections that somebody else has found to do harm, after they have been silenced for a while.

- Who is closed at once is back at once, with a connection that nobody knows anything of. So the kernel first drops all
  that comes on the connection, and what has come and was not read: its peer has to wait until it is closed, or to give
  it up by itself.
- For how long, says who has found them. One that is named again is silenced no longer because of it. One that was not
  found, for want of a descriptor, is looked for when it is named again, and where it is to be closed, until
  `_FORGET_SECONDS` after that.
- To find a connection by its name, all of them are looked at. That is done in a part of the time alone, however many
  there are, and however often some have to go.
- Where the system cannot drop what comes, a connection is closed without having been silenced.
"""

import ctypes
import logging
import socket
import struct
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from tensor_reshape.server.transport.sockets import find_connections, name_peer

_FORGET_SECONDS = 2.0
_LOG_SECONDS = 10.0  # between two lines: a stranger can be an offender as often as he likes
_REST_SHARE = 5.0  # times as long as a look took, from its begin to the next one: no more than a fifth of the time
_SO_ATTACH_FILTER = 26  # of Linux
_DISCARDED_BYTES = 1 << 20  # at a time: no memory is touched for them
# A program of the kernel's packet filter with one instruction: keep nothing of the packet.
_DROP_ALL = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
_PROGRAM = struct.pack("HP", 1, ctypes.addressof(_DROP_ALL))  # struct sock_fprog: how many there are, and where
_LOGGER = logging.getLogger(__name__)


class OffenderCloser:
    """Silences connections, and closes them."""

    def __init__(self, ports: Collection[int], take_offenders: Callable[[], Mapping[str, float]]) -> None:
        """Looks after the connections of a server.

        Args:
            ports: the TCP ports that it listens on.
            take_offenders: returns the names of those that have to go, as grpcio gives them, and for how many seconds
                nothing is to be heard of each until it is closed.
        """
        self._ports = frozenset(ports)
        self._take_offenders = take_offenders
        self._silenced: dict[str, float] = {}  # when each is closed
        self._not_before = self._quiet_until = 0.0  # of a look, and of a line
        self._unsaid = 0  # how many were silenced since the last line

    def look(self, now: float) -> None:
        """Silences those that have to go, and closes those whose time has come.

        Args:
            now: by `time.monotonic`.
        """
        if now < self._not_before:
            return
        began = time.perf_counter()
        offenders = self._take_offenders()
        ended = {name for name, due in self._silenced.items() if due <= now}
        if offenders or ended:
            self._handle(offenders, ended, now)
            self._not_before = now + (time.perf_counter() - began) * _REST_SHARE

    def _handle(self, offenders: Mapping[str, float], ended: Collection[str], now: float) -> None:
        before, closed = frozenset(self._silenced), set[str]()
        for _, found in find_connections(self._ports):
            with suppress(OSError):  # it has been closed
                name = name_peer(found)
                # Several may have one name: from one port to two of ours, or held by another thread at this moment.
                if name in ended:
                    closed.add(name)
                    _close(found)
                elif name in offenders and name not in before:
                    self._silence(found, name, now, offenders[name])
        for name in ended:
            if name in closed or self._silenced[name] < now - _FORGET_SECONDS:  # else it has gone by itself
                del self._silenced[name]

    def _silence(self, found: socket.socket, name: str, now: float, seconds: float) -> None:
        try:
            found.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, _PROGRAM)
            _discard(found)
            self._silenced[name] = now + seconds
        except OSError:
            _close(found)
        self._unsaid += 1
        if now >= self._quiet_until:
            extra = {"connections": self._unsaid, "last": name}
            _LOGGER.warning("closing connections that cost too much: reset calls, or endless headers", extra=extra)
            self._unsaid, self._quiet_until = 0, now + _LOG_SECONDS


def _discard(found: socket.socket) -> None:
    """Has the kernel forget what has come, and was not read: from now on the rest of it does not come either."""
    with suppress(BlockingIOError):
        while found.recv(_DISCARDED_BYTES, socket.MSG_DONTWAIT | socket.MSG_TRUNC):
            pass


def _close(found: socket.socket) -> None:
    """Ends a connection, not its descriptor, which is gRPC's: that sees the end, and closes it."""
    # With a reset, which asks for no answer: an answer would be dropped, and the kernel would try again for minutes.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    found.shutdown(socket.SHUT_RDWR)
