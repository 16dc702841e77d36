"""A pytest plugin with fixtures for a server and a client. pytest finds the plugin by its entry point.

Invariant: if a test session uses none of these fixtures, this module imports neither gRPC nor numpy.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tensor_reshape.testing.servers import ReshapeServer, run_server

if TYPE_CHECKING:
    from tensor_reshape.client import Client


@pytest.fixture(scope="session")
def reshape_server() -> Iterator[ReshapeServer]:
    """A running server, in its own process on a free port. All tests of the session use the same server."""
    with run_server() as server:
        yield server


@pytest.fixture
def reshape_client(reshape_server: ReshapeServer) -> "Iterator[Client]":
    """A client that is connected to the test server. Each test gets a new client."""
    from tensor_reshape.client import Client  # noqa: PLC0415 - by the invariant above

    with Client(reshape_server.address) as client:
        yield client
