"""The pytest plugin with the fixtures. pytest finds the plugin by its entry point.

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
    """A server that runs in its own process on a free port, for the whole test session."""
    with run_server() as server:
        yield server


@pytest.fixture
def reshape_client(reshape_server: ReshapeServer) -> "Iterator[Client]":
    """A client of the test server, for one test."""
    from tensor_reshape.client import Client  # noqa: PLC0415 - by the invariant above

    with Client(reshape_server.address) as client:
        yield client
