"""Sockets of TCP that tests of the transport share."""

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
    """A client's end, and the server's."""
    with socket.create_connection(listener.getsockname(), _SECONDS) as client, listener.accept()[0] as served:
        served.settimeout(_SECONDS)  # so that a connection that is not closed fails the test
        yield client, served
