from collections.abc import Callable, Iterator

import pytest

from server_processes import ServerProcess


@pytest.fixture(scope="module", autouse=True)
def engine() -> Iterator[None]:
    """Makes servers use the event engine, as servers do that other machines can reach, although these use loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRPC_EXPERIMENTS", "event_engine_listener")
        yield


@pytest.fixture(scope="session")
def server(start_once: Callable[..., ServerProcess]) -> ServerProcess:
    """The server of all tests of this folder, with the event engine."""
    return start_once()
