"""Arrays there and back in chunks, through both clients."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, AnyClient, open_client
from meters import read_memory
from server_processes import ServerProcess, run_server
from tensor_reshape.client import AsyncClient, Client, InvalidRequestError, LimitError, Reason
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_strategies import make_packable

MIB = 1 << 20
ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=CALLERS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=100) as client:
        yield client


def make_bytes(size: int) -> Array:
    return np.random.default_rng(size).integers(0, 256, size, np.uint8)


def test_every_bit_of_every_data_type_survives_a_stream(any_client: AnyClient):
    for data_type in DTYPES:
        raw = make_bytes(1024 * data_type.group_bytes)
        array = make_packable(data_type, raw) if data_type.is_packed else raw.view(DTYPES[data_type])
        output = any_client.reshape(array, [32, -1], transfer="stream")
        same = (output.dtype, output.shape, output.tobytes()) == (array.dtype, (32, 32), array.tobytes())
        assert same, data_type


# bytes of the tensor, bytes of a chunk
PIECES = [
    *[(1, 1), (300, 1), (300, 7), (300, 299), (300, 300), (300, 301), (65536, 4096)],
    *[(3 * MIB + 5, 65536), (4 * MIB, MIB), (4 * MIB + 1, MIB), (9 * MIB + 17, 4 * MIB)],
]


@pytest.mark.parametrize("kind", CALLERS)
def test_a_tensor_survives_chunks_of_any_size(server: ServerProcess, kind: str):
    for size, chunk_bytes in PIECES:
        array = make_bytes(size)
        with open_client(kind, server.address, chunk_bytes=chunk_bytes) as client:
            output = client.reshape(array, [1, -1], transfer="stream")
        assert (output.shape, output.tobytes() == array.tobytes()) == ((1, size), True), chunk_bytes


def test_every_operation_is_served_in_chunks(any_client: AnyClient):
    for call in (any_client.static_reshape, any_client.dynamic_reshape, any_client.reshape):
        output = call(ROWS, [0, -1], special_zero=True, transfer="stream")
        np.testing.assert_array_equal(output, ROWS.reshape(2, 12), strict=True)


def test_arrays_of_every_layout_are_streamed(any_client: AnyClient):
    broadcast = np.broadcast_to(ROWS, (50, 2, 3, 4))
    for array in (ROWS.T, ROWS[:, ::2], ROWS[:, ::-1], broadcast, ROWS.astype(">f4"), ROWS.tolist(), np.float32(2.5)):
        output = any_client.reshape(array, [-1], transfer="stream")
        np.testing.assert_array_equal(output, np.asarray(array).reshape(-1))
    scalar = any_client.reshape(np.float32(2.5), [], transfer="stream")
    np.testing.assert_array_equal(scalar, np.array(2.5, np.float32), strict=True)
    empty = any_client.static_reshape(np.empty((0, 3), np.float16), [5, 0], transfer="stream")
    assert (empty.dtype, empty.shape) == (np.dtype(np.float16), (5, 0))


def test_the_output_of_a_stream_is_writable_on_request(any_client: AnyClient):
    output = any_client.reshape(ROWS, [-1], transfer="stream", writable=True)
    assert (output.flags.writeable, np.shares_memory(output, ROWS)) == (True, False)


def test_a_refusal_is_the_same_on_a_stream(any_client: AnyClient):
    with pytest.raises(InvalidRequestError) as caught:
        any_client.reshape(ROWS, [5, -1], transfer="stream")
    assert caught.value.reason == Reason.NOT_DIVISIBLE


@pytest.mark.parametrize("kind", CALLERS)
def test_arrays_above_the_limit_of_one_message_are_streamed(server: ServerProcess, kind: str):
    with open_client(kind, server.address, inline_max_bytes=1000) as client:
        views = [isinstance(client.reshape(make_bytes(size), [-1]).base, bytes) for size in (1000, 1001)]
    assert views == [True, False]  # what came in one message is a view of it


@pytest.mark.parametrize("kind", CALLERS)
def test_a_server_of_small_messages_takes_large_tensors(small_server: ServerProcess, kind: str):
    with open_client(kind, small_server.address, chunk_bytes=4000) as client:
        array = make_bytes(300_000)
        assert client.reshape(array, [-1], transfer="stream").tobytes() == array.tobytes()
        with pytest.raises(LimitError) as caught:
            client.reshape(make_bytes(300_001), [-1], transfer="stream")
        assert caught.value.reason == Reason.TENSOR_TOO_LARGE


@pytest.mark.measured
def test_a_stream_of_128_mib_takes_little_server_memory(serving: str):
    array = np.arange(16 * MIB)
    out = np.empty_like(array)
    with run_server("--serving", serving) as server:
        idle = read_memory(server.process.pid, "VmRSS")
        for kind in CLIENTS:
            out[:] = 0
            with open_client(kind, server.address) as client:
                client.reshape(array, [-1], transfer="stream", out=out)
            np.testing.assert_array_equal(out, array)
        assert read_memory(server.process.pid, "VmHWM") - idle < 64 * MIB


def test_threads_stream_over_one_client(server: ServerProcess):
    def check(number: int) -> bool:
        array = make_bytes(200_000 + number)
        return client.reshape(array, [-1], special_zero=False, transfer="stream").tobytes() == array.tobytes()

    with Client(server.address, chunk_bytes=10_000) as client, ThreadPoolExecutor(40) as pool:
        assert all(pool.map(check, range(80)))


async def test_tasks_stream_over_one_client(server: ServerProcess):
    arrays = [make_bytes(100_000 + number) for number in range(60)]
    async with AsyncClient(server.address, chunk_bytes=10_000) as client:
        calls = (client.reshape(array, [-1], special_zero=False, transfer="stream") for array in arrays)
        outputs = await asyncio.gather(*calls)
    assert [output.tobytes() for output in outputs] == [array.tobytes() for array in arrays]
