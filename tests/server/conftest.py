"""TCP sockets for tests of the transport."""

import socket
from collections.abc import Iterator

import pytest

_SECONDS = 60.0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def pair(listener: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's socket, and the server's socket."""
    with socket.create_connection(listener.getsockname(), _SECONDS) as client, listener.accept()[0] as served:
        served.settimeout(_SECONDS)  # so that an open connection fails the test
        yield client, served
