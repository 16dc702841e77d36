"""Arrays are reshaped in chunks, through both clients."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, open_client
from meters import read_memory
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.wire.arrays import Array

MIB = 1 << 20


def make_bytes(size: int) -> Array:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


# bytes of the tensor, bytes of a chunk
PIECES = [
    *[(1, 1), (300, 1), (300, 7), (300, 299), (300, 300), (300, 301), (65536, 4096)],
    *[(3 * MIB + 5, 65536), (4 * MIB, MIB), (4 * MIB + 1, MIB), (9 * MIB + 17, 4 * MIB)],
]


@pytest.mark.parametrize("kind", CALLERS)
def test_stream_keeps_elements_with_any_chunk_size(server: ServerProcess, kind: str):
    for size, chunk_bytes in PIECES:
        array = make_bytes(size)
        with open_client(kind, server.address, chunk_bytes=chunk_bytes) as client:
            output = client.reshape(array, [1, -1], transfer="stream")
        assert (output.shape, output.tobytes() == array.tobytes()) == ((1, size), True), chunk_bytes


@pytest.mark.measured
def test_stream_of_128_mib_uses_little_server_memory():
    array = np.arange(16 * MIB)
    out = np.empty_like(array)
    with run_server() as server:
        idle = read_memory(server.process.pid, "VmRSS")
        for kind in CLIENTS:
            out[:] = 0
            with open_client(kind, server.address) as client:
                client.reshape(array, [-1], transfer="stream", out=out)
            np.testing.assert_array_equal(out, array)
        assert read_memory(server.process.pid, "VmHWM") - idle < 64 * MIB


def test_threads_can_stream_concurrently_over_one_client(server: ServerProcess):
    def check(number: int) -> bool:
        array = make_bytes(200_000 + number)
        return client.reshape(array, [-1], special_zero=False, transfer="stream").tobytes() == array.tobytes()

    with Client(server.address, chunk_bytes=10_000) as client, ThreadPoolExecutor(40) as pool:
        assert all(pool.map(check, range(80)))


async def test_tasks_can_stream_concurrently_over_one_client(server: ServerProcess):
    arrays = [make_bytes(100_000 + number) for number in range(60)]
    async with AsyncClient(server.address, chunk_bytes=10_000) as client:
        calls = (client.reshape(array, [-1], special_zero=False, transfer="stream") for array in arrays)
        outputs = await asyncio.gather(*calls)
    assert [output.tobytes() for output in outputs] == [array.tobytes() for array in arrays]
