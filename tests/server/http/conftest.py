from collections.abc import Iterator

import pytest

from http_servers import RunningPort, run_http


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningPort]:
    """A port with the default settings, for tests that leave no trace in it."""
    with run_http() as running:
        yield running


@pytest.fixture
def address(shared: RunningPort) -> str:
    return shared.address
