"""The sockets under grpcio's server: found among the descriptors of this process, by the port that they belong to.

- What a number stands for may change at any time, so each is duplicated before it is looked at.
- Where the system does not show a process its own descriptors, nothing is found.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
_V4_MAPPED = "::ffff:"


def count_descriptors() -> int:
    """Returns how many descriptors this process has open; 0 where there is none left to find that out."""
    try:
        return len(os.listdir(_DESCRIPTORS))  # noqa: PTH208 - to count is all, of thousands
    except OSError:
        return 0


def find_listeners(ports: Iterable[int]) -> Iterator[socket.socket]:
    """Yields what listens on these TCP ports, each open until the next."""
    for _, found in _find(ports, listening=True):
        yield found


def find_connections(ports: Iterable[int]) -> Iterator[tuple[int, socket.socket]]:
    """Yields the connections that clients have to these TCP ports, with their numbers, each open until the next."""
    return _find(ports, listening=False)


def name_peer(found: socket.socket) -> str:
    """Returns the name that grpcio gives a connection.

    Raises:
        OSError: it has been closed.
    """
    host, port, *rest = found.getpeername()
    if found.family == socket.AF_INET or host.startswith(_V4_MAPPED):
        return f"ipv4:{host.removeprefix(_V4_MAPPED)}:{port}"
    scope = rest[1]  # of an address that only means something on one network
    return f"ipv6:%5B{host}{f'%25{scope}' if scope else ''}%5D:{port}"


@contextmanager
def hold(descriptor: int, ports: Iterable[int]) -> Iterator[socket.socket]:
    """Yields another handle of a socket.

    Raises:
        OSError: the number stands for nothing, or for something else than a socket on one of the TCP ports.
    """
    own = os.dup(descriptor)
    try:
        held = socket.socket(fileno=own)
    except OSError:
        os.close(own)  # it would stay open, and be found again
        raise
    with held:
        if held.family not in {socket.AF_INET, socket.AF_INET6} or held.getsockname()[1] not in ports:
            message = "a socket of something else"
            raise OSError(message)
        yield held


def _find(ports: Iterable[int], *, listening: bool) -> Iterator[tuple[int, socket.socket]]:
    try:
        numbers = [int(name) for name in os.listdir(_DESCRIPTORS)]  # noqa: PTH208
    except OSError:
        return
    for number in numbers:
        with suppress(OSError), hold(number, ports) as held:
            if bool(held.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) == listening:
                yield number, held
