"""Compressed messages: refused unless they are asked for, and then within the limits of all others."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from http2 import Connection, grpc_message
from server_processes import ServerProcess, run_server
from tensor_reshape.client import Client, ServiceError
from tensor_reshape.runtime.experiments import find_release
from tensor_reshape.server.config import BOUNDED_UNPACKING
from tensor_reshape.wire.health import CHECK_METHOD
from tensor_reshape.wire.methods import INFER_SHAPE, STREAM_RESHAPE

GZIP = grpc.Compression.Gzip
MIB = 2**20
# 16 KiB that become what the largest message may be: as a health check, a question and a chunk.
BOMB = grpc_message(gzip.compress(bytes(16 * MIB)), compressed=1)
HEADERS = [("grpc-encoding", "gzip")]
COUNT = 32
needs_bounds = pytest.mark.skipif(
    (find_release() or (0, 0)) < BOUNDED_UNPACKING, reason="this grpcio does not bound what it unpacks"
)
UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])


@pytest.fixture(scope="module")
def compressing_server(serving: str, start_for_file: Callable[..., ServerProcess]) -> ServerProcess:
    return start_for_file("--serving", serving, "--compression")


@pytest.fixture(params=CALLERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def find_peak_mib(server: ServerProcess) -> float:
    """Returns the most memory that the server has had."""
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text())
    return int(kilobytes) / 1024


def send_bombs(server: ServerProcess, path: str) -> list[str]:
    """Returns what as many calls as one connection may have end with."""
    with Connection(server.address) as connection:
        streams = [connection.open(path, headers=HEADERS) for _ in range(COUNT)]
        for stream in streams:
            connection.send_data(stream, BOMB, end=True)
        return [connection.await_end(stream).status for stream in streams]


@needs_bounds
@pytest.mark.parametrize("transfer", ["inline", "stream"])
@pytest.mark.parametrize("compression", [GZIP, grpc.Compression.Deflate])
def test_a_server_that_takes_compressed_messages_answers_them(
    kind: str, transfer: str, compression: grpc.Compression, compressing_server: ServerProcess
):
    array = np.zeros((1000, 600), np.float32)
    with open_client(kind, compressing_server.address, compression=compression) as client:
        output = client.reshape(array, [600, -1], transfer=transfer)
    assert output.shape == (600, 1000)
    assert not output.any()


def test_a_server_takes_none_unless_it_is_told_to(kind: str, server: ServerProcess):
    with open_client(kind, server.address, compression=GZIP) as client, pytest.raises(ServiceError) as caught:
        client.reshape(np.zeros(1000, np.float32), [-1])
    assert caught.value.code is grpc.StatusCode.UNIMPLEMENTED
    assert "gzip" in caught.value.message


@pytest.mark.parametrize("path", [INFER_SHAPE.path, STREAM_RESHAPE.path, CHECK_METHOD])
def test_what_would_unpack_to_much_is_refused_unread(path: str, server: ServerProcess):
    before = find_peak_mib(server)
    assert set(send_bombs(server, path)) == {UNIMPLEMENTED}
    assert find_peak_mib(server) < before + 16  # not one of them was unpacked


@needs_bounds
@pytest.mark.parametrize("path", [INFER_SHAPE.path, STREAM_RESHAPE.path])
def test_what_is_unpacked_is_part_of_the_budget(path: str, serving: str):
    flags = ("--max-message-bytes", str(4 * MIB), "--memory-budget-bytes", str(64 * MIB))
    with run_server("--serving", serving, "--compression", *flags) as server:
        before = find_peak_mib(server)
        assert "0" not in send_bombs(server, path)  # four times what a message may be
        assert find_peak_mib(server) < before + 64


@needs_bounds
def test_health_on_a_port_of_its_own_takes_none_in_any_case(serving: str):
    with run_server("--serving", serving, "--compression", "--health-listen", "127.0.0.1:0") as server:
        (record,) = server.await_records(1, "listening for health checks")
        with (
            Client(record["address"], compression=GZIP) as client,
            pytest.raises(ServiceError, match=r"UNIMPLEMENTED.*gzip"),
        ):
            client.check_health("x" * 1000)
