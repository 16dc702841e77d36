"""The pytest plugin with the fixtures. pytest finds the plugin by its entry point.

Invariant: if a test session uses none of these fixtures, this module imports neither gRPC nor numpy.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tensor_reshape.client import Client
    from tensor_reshape.testing.fakes import FakeClient
    from tensor_reshape.testing.servers import ReshapeServer


@pytest.fixture(scope="session")
def reshape_server() -> "Iterator[ReshapeServer]":
    """A server that runs in its own process on a free port, for the whole test session."""
    from tensor_reshape.testing.servers import run_server  # noqa: PLC0415 - by the invariant above

    with run_server() as server:
        yield server


@pytest.fixture
def reshape_client(reshape_server: "ReshapeServer") -> "Iterator[Client]":
    """A client of the test server, for one test."""
    from tensor_reshape.client import Client  # noqa: PLC0415 - as above

    with Client(reshape_server.address) as client:
        yield client


@pytest.fixture
def fake_reshape_client() -> "Iterator[FakeClient]":
    """A fake client without a server, for one test."""
    from tensor_reshape.testing.fakes import FakeClient  # noqa: PLC0415 - as above

    with FakeClient() as client:
        yield client
