"""Arrays there and back in chunks, through both clients."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from both_clients import CALLERS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, Client, InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.dtypes import DataType
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


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_every_bit_of_every_data_type_survives(any_client: AnyClient, data_type: DataType):
    raw = make_bytes(1024 * data_type.group_bytes)
    array = make_packable(data_type, raw) if data_type.is_packed else raw.view(DTYPES[data_type])
    output = any_client.reshape(array, [32, -1], transfer="stream")
    assert (output.dtype, output.shape, output.tobytes()) == (array.dtype, (32, 32), array.tobytes())


# bytes of the tensor, bytes of a chunk
PIECES = [
    (1, 1),
    (300, 1),
    (300, 7),
    (300, 299),
    (300, 300),
    (300, 301),
    (65536, 4096),
    (3 * MIB + 5, 65536),
    (4 * MIB, MIB),
    (4 * MIB + 1, MIB),
    (9 * MIB + 17, 4 * MIB),
]


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize(("size", "chunk_bytes"), PIECES)
def test_a_tensor_of_any_size_survives_chunks_of_any_size(
    server: ServerProcess, kind: str, size: int, chunk_bytes: int
):
    array = make_bytes(size)
    with open_client(kind, server.address, chunk_bytes=chunk_bytes) as client:
        output = client.reshape(array, [1, -1], transfer="stream")
    assert (output.shape, output.tobytes()) == ((1, size), array.tobytes())


@pytest.mark.parametrize("method", ["static_reshape", "dynamic_reshape", "reshape"])
def test_every_operation_is_served_in_chunks(any_client: AnyClient, method: str):
    output = getattr(any_client, method)(ROWS, [0, -1], special_zero=True, transfer="stream")
    np.testing.assert_array_equal(output, ROWS.reshape(2, 12), strict=True)


@pytest.mark.parametrize(
    "array",
    [ROWS.T, ROWS[:, ::2], ROWS[:, ::-1], np.broadcast_to(ROWS, (50, 2, 3, 4)), ROWS.astype(">f4"), ROWS.tolist()],
    ids=["transposed", "with gaps", "reversed", "broadcast", "big-endian", "a list"],
)
def test_an_array_of_any_layout_survives(any_client: AnyClient, array: Array):
    output = any_client.reshape(array, [-1], transfer="stream")
    np.testing.assert_array_equal(output, np.asarray(array).reshape(-1))


@pytest.mark.parametrize("target", [[], [1], [1, -1]], ids=str)
def test_a_scalar_is_a_tensor_too(any_client: AnyClient, target: list[int]):
    output = any_client.static_reshape(np.float32(2.5), target, transfer="stream")
    np.testing.assert_array_equal(output, np.full([1] * len(target), 2.5, np.float32), strict=True)


def test_an_empty_tensor_is_one_too(any_client: AnyClient):
    output = any_client.static_reshape(np.empty((0, 3), np.float16), [5, 0], transfer="stream")
    assert (output.dtype, output.shape) == (np.dtype(np.float16), (5, 0))


def test_the_output_of_a_stream_that_is_to_be_writable_is_not_copied_for_it(any_client: AnyClient):
    output = any_client.reshape(ROWS, [-1], transfer="stream", writable=True)
    assert (output.flags.writeable, np.shares_memory(output, ROWS)) == (True, False)


def test_a_refusal_is_the_same_on_a_stream(any_client: AnyClient):
    with pytest.raises(InvalidRequestError) as caught:
        any_client.reshape(ROWS, [5, -1], transfer="stream")
    assert caught.value.reason == Reason.NOT_DIVISIBLE


@pytest.mark.parametrize("kind", CALLERS)
@pytest.mark.parametrize(("excess", "is_stream"), [(0, False), (1, True)])
def test_arrays_above_the_limit_of_one_message_are_streamed(
    server: ServerProcess, kind: str, excess: int, is_stream: bool
):
    with open_client(kind, server.address, inline_max_bytes=1000) as client:
        output = client.reshape(make_bytes(1000 + excess), [-1])
    assert isinstance(output.base, bytes) != is_stream  # what came in one message is a view of it


@pytest.mark.parametrize("kind", CALLERS)
def test_a_server_of_small_messages_takes_large_tensors_in_small_chunks(small_server: ServerProcess, kind: str):
    array = make_bytes(300_000)
    with open_client(kind, small_server.address, chunk_bytes=4000) as client:
        assert client.reshape(array, [-1], transfer="stream").tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", CALLERS)
def test_a_tensor_above_the_limit_of_a_stream_is_refused(small_server: ServerProcess, kind: str):
    with open_client(kind, small_server.address) as client, pytest.raises(LimitError) as caught:
        client.reshape(make_bytes(300_001), [-1], transfer="stream")
    assert caught.value.reason == Reason.TENSOR_TOO_LARGE


@pytest.mark.parametrize("kind", CALLERS)
def test_a_chunk_above_the_limit_of_a_message_is_refused(small_server: ServerProcess, kind: str):
    with open_client(kind, small_server.address, chunk_bytes=4097) as client, pytest.raises(LimitError) as caught:
        client.reshape(make_bytes(10_000), [-1], transfer="stream")
    assert caught.value.reason == Reason.MESSAGE_TOO_LARGE


def test_threads_stream_over_one_client(server: ServerProcess):
    def check(number: int) -> bool:
        array = make_bytes(200_000 + number)
        return client.reshape(array, [-1], special_zero=False, transfer="stream").tobytes() == array.tobytes()

    with Client(server.address, chunk_bytes=10_000) as client, ThreadPoolExecutor(40) as pool:
        assert all(pool.map(check, range(120)))


async def test_tasks_stream_over_one_client(server: ServerProcess):
    arrays = [make_bytes(100_000 + number) for number in range(100)]
    async with AsyncClient(server.address, chunk_bytes=10_000) as client:
        calls = (client.reshape(array, [-1], special_zero=False, transfer="stream") for array in arrays)
        outputs = await asyncio.gather(*calls)
    assert [output.tobytes() for output in outputs] == [array.tobytes() for array in arrays]
