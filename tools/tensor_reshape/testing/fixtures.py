"""The plugin of pytest, which finds it by its entry point wherever this is installed.

Law: a session that uses none of these fixtures imports neither gRPC nor numpy for them.
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
    """A server in a process of its own, on a free port, for the whole session."""
    from tensor_reshape.testing.servers import run_server  # noqa: PLC0415 - by the law above, and below

    with run_server() as server:
        yield server


@pytest.fixture
def reshape_client(reshape_server: "ReshapeServer") -> "Iterator[Client]":
    """A client of that server, for one test."""
    from tensor_reshape.client import Client  # noqa: PLC0415

    with Client(reshape_server.address) as client:
        yield client


@pytest.fixture
def fake_reshape_client() -> "Iterator[FakeClient]":
    """A client that answers by itself, for one test."""
    from tensor_reshape.testing.fakes import FakeClient  # noqa: PLC0415

    with FakeClient() as client:
        yield client
