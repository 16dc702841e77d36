from collections.abc import Callable, Iterator

import pytest

from server_processes import ServerProcess


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    """Has servers read connections as those do that strangers can reach, although these listen on loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSOR_RESHAPE_IO_ENGINE", "event")
        yield


@pytest.fixture(scope="session")
def server(start_once: Callable[..., ServerProcess]) -> ServerProcess:
    """As that of all other tests, but read as strangers find it."""
    return start_once("--io-engine", "event")
