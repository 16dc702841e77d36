from collections.abc import Iterator

import grpc
import pytest

from server_processes import ServerProcess, run_server
from tensor_reshape.v1 import reshape_pb2_grpc


@pytest.fixture(scope="session")
def small_server(serving: str) -> Iterator[ServerProcess]:
    """A server whose messages are small, and whose tensors are not much larger."""
    limits = ["--max-message-bytes", "4096", "--max-tensor-bytes", "300000"]
    with run_server("--serving", serving, *limits) as process:
        yield process


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address) as channel:
        yield channel


@pytest.fixture
def stub(channel: grpc.Channel) -> reshape_pb2_grpc.ReshapeServiceStub:
    return reshape_pb2_grpc.ReshapeServiceStub(channel)
