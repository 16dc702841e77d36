"""Compressed messages are rejected before they are decompressed."""

import gzip

import grpc
import pytest

from http2 import Connection, grpc_message
from meters import read_memory
from server_processes import ServerProcess
from tensor_reshape.wire.methods import INFER_SHAPE, STREAM_RESHAPE
from tensor_reshape.wire.servers import CHECK_METHOD

MIB = 2**20
# 16 KiB that decompress to the largest message, sent as a health check, a query and a chunk.
BOMB = grpc_message(gzip.compress(bytes(16 * MIB)), compressed=1)
COUNT = 32
UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])


def send_bombs(server: ServerProcess, path: str) -> set[str]:
    """Returns the status codes of COUNT calls on one connection."""
    with Connection(server.address) as connection:
        streams = [connection.open(path, headers=[("grpc-encoding", "gzip")]) for _ in range(COUNT)]
        for stream in streams:
            connection.send_data(stream, BOMB, end=True)
        return {connection.await_end(stream).status for stream in streams}


@pytest.mark.parametrize("path", [INFER_SHAPE.path, STREAM_RESHAPE.path, CHECK_METHOD])
def test_compressed_messages_are_rejected_without_decompression(path: str, server: ServerProcess):
    before = read_memory(server.process.pid, "VmHWM")
    assert send_bombs(server, path) == {UNIMPLEMENTED}
    assert read_memory(server.process.pid, "VmHWM") < before + 16 * MIB
