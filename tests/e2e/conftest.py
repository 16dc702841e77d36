from collections.abc import Callable, Iterator

import grpc
import pytest

from certificates import Certificates, issue_certificates
from server_processes import ServerProcess
from tensor_reshape.v1 import reshape_pb2_grpc


@pytest.fixture(scope="session")
def small_server(start_once: Callable[..., ServerProcess]) -> ServerProcess:
    """A server with small messages."""
    return start_once("--max-message-bytes", "4096")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """An authority and its certificates, which no test changes."""
    return issue_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> reshape_pb2_grpc.ReshapeServiceStub:
    return reshape_pb2_grpc.ReshapeServiceStub(channel)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes calls of this process wait half a second for a server instead of ten."""
    monkeypatch.setattr("tensor_reshape.client.retries.PATIENCE_SECONDS", 0.5)
