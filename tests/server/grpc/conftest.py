"""A server with the real engine and short programs as methods, and a connection to it."""

from collections.abc import Iterator

import pytest

from grpc_servers import EngineServer, serve_engine
from http2 import Connection


@pytest.fixture
def served() -> Iterator[EngineServer]:
    with serve_engine() as served:
        yield served


@pytest.fixture
def connection(served: EngineServer) -> Iterator[Connection]:
    with Connection(served.address) as connection:
        yield connection
