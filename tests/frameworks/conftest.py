"""Frameworks that other tests do not need. `scripts/verify frameworks` installs them and runs these tests."""

from collections.abc import Iterator

import pytest

from both_clients import CLIENTS, AnyClient, open_client
from server_processes import ServerProcess


@pytest.fixture(scope="session", params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=100) as client:
        yield client
