"""Compressed messages: refused unless they are allowed, and then within the limits of all others."""

import gzip

import grpc
import numpy as np
import pytest

from both_clients import CALLERS, open_client
from http2 import Connection, grpc_message
from meters import read_memory
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
COUNT = 32
UNIMPLEMENTED = str(grpc.StatusCode.UNIMPLEMENTED.value[0])
needs_bounds = pytest.mark.skipif(
    (find_release() or (0, 0)) < BOUNDED_UNPACKING, reason="this grpcio does not bound what it unpacks"
)


def send_bombs(server: ServerProcess, path: str) -> set[str]:
    """Returns what as many calls as one connection may have end with."""
    with Connection(server.address) as connection:
        streams = [connection.open(path, headers=[("grpc-encoding", "gzip")]) for _ in range(COUNT)]
        for stream in streams:
            connection.send_data(stream, BOMB, end=True)
        return {connection.await_end(stream).status for stream in streams}


@needs_bounds
def test_a_server_with_compression_answers_and_bounds_its_memory():
    limits = ("--max-message-bytes", str(4 * MIB), "--memory-budget-bytes", str(64 * MIB))
    array = np.zeros((1000, 600), np.float32)
    with run_server("--compression", "--health-listen", "127.0.0.1:0", *limits) as server:
        for kind in CALLERS:
            for compression in (GZIP, grpc.Compression.Deflate):
                with open_client(kind, server.address, compression=compression) as client:
                    for transfer in ("inline", "stream"):
                        output = client.reshape(array, [600, -1], transfer=transfer)
                        assert (output.shape, output.tobytes()) == ((600, 1000), bytes(array.nbytes))
        before = read_memory(server.process.pid, "VmHWM")
        for path in (INFER_SHAPE.path, STREAM_RESHAPE.path):
            assert "0" not in send_bombs(server, path)  # four times what a message may be
        assert read_memory(server.process.pid, "VmHWM") < before + 64 * MIB
        (record,) = server.await_records(1, "listening for health checks")
        with Client(record["address"], compression=GZIP) as probe, pytest.raises(ServiceError) as caught:
            probe.check_health("x" * 1000)  # on a port of its own, health takes no compression in any case
        assert (caught.value.code, "gzip" in caught.value.message) == (grpc.StatusCode.UNIMPLEMENTED, True)


@pytest.mark.parametrize("path", [INFER_SHAPE.path, STREAM_RESHAPE.path, CHECK_METHOD])
def test_compressed_messages_are_refused_unread_by_default(path: str, server: ServerProcess):
    before = read_memory(server.process.pid, "VmHWM")
    assert send_bombs(server, path) == {UNIMPLEMENTED}
    assert read_memory(server.process.pid, "VmHWM") < before + 16 * MIB  # not one of them was unpacked
