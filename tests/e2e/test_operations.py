"""Arrays there and back through a server in a process of its own."""

from collections.abc import AsyncIterator, Iterator

import ml_dtypes
import numpy as np
import pytest

from server_processes import ServerProcess
from tensor_reshape.client import AsyncClient, Client
from tensor_reshape.rules.dtypes import GRAPH_FLOATS, DataType
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_strategies import make_packable

GRAPH_TYPES = sorted(GRAPH_FLOATS)
ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(params=["TCP", "unix socket"])
def either_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[Client]:
    address = server.addresses[["TCP", "unix socket"].index(request.param)]
    with Client(address) as client:
        yield client


@pytest.fixture
async def async_client(server: ServerProcess) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.address) as client:
        yield client


def make_patterns(data_type: DataType) -> Array:
    """Every byte value in every byte of an element: NaN payloads, odd booleans, subnormals."""
    if data_type.is_packed:
        return make_packable(data_type, np.arange(256))
    size = data_type.group_bytes
    raw = bytes((value + 37 * place) % 256 for value in range(256) for place in range(size))
    return np.frombuffer(raw, DTYPES[data_type])


def test_static_reshape_copies_a_dim_and_keeps_the_volume(either_client: Client):
    output = either_client.static_reshape(ROWS, [0, -1], special_zero=True)
    np.testing.assert_array_equal(output, ROWS.reshape(2, 12), strict=True)


def test_dynamic_reshape_takes_its_target_from_an_i32_array(either_client: Client):
    output = either_client.dynamic_reshape(ROWS, np.array([4, -1], np.int32), special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape(4, 6), strict=True)


def test_reshape_takes_its_target_from_an_array(either_client: Client):
    output = either_client.reshape(ROWS, np.array([-1, 0], np.int16), special_zero=True)
    np.testing.assert_array_equal(output, ROWS.reshape(8, 3), strict=True)


def test_infer_shape_answers_with_python_integers(either_client: Client):
    assert either_client.infer_shape([2, 3, 4], [0, -1], special_zero=True) == (2, 12)


async def test_static_reshape_is_awaited(async_client: AsyncClient):
    output = await async_client.static_reshape(ROWS, [0, -1], special_zero=True)
    np.testing.assert_array_equal(output, ROWS.reshape(2, 12), strict=True)


async def test_dynamic_reshape_is_awaited(async_client: AsyncClient):
    output = await async_client.dynamic_reshape(ROWS, np.array([4, -1], np.int32), special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape(4, 6), strict=True)


async def test_reshape_is_awaited(async_client: AsyncClient):
    output = await async_client.reshape(ROWS, [-1, 0], special_zero=True)
    np.testing.assert_array_equal(output, ROWS.reshape(8, 3), strict=True)


async def test_infer_shape_is_awaited(async_client: AsyncClient):
    inferred = await async_client.infer_shape([4, 0, 2], [-1, 0], special_zero=True, operation="reshape")
    assert inferred == (8, 0)


async def test_an_asyncio_client_reaches_a_unix_socket(server: ServerProcess):
    async with AsyncClient(server.addresses[1]) as client:
        assert await client.infer_shape([2, 3], [6], special_zero=False) == (6,)


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_every_bit_of_every_data_type_survives_reshape(client: Client, data_type: DataType):
    patterns = make_patterns(data_type)
    output = client.reshape(patterns, [16, -1], special_zero=False)
    assert (output.dtype, output.shape, output.tobytes()) == (patterns.dtype, (16, 16), patterns.tobytes())


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_every_bit_of_every_data_type_survives_a_transposition(client: Client, data_type: DataType):
    transposed = make_patterns(data_type).reshape(8, 32).T
    output = client.reshape(transposed, [-1], special_zero=False)
    assert output.tobytes() == transposed.tobytes()


@pytest.mark.parametrize("data_type", GRAPH_TYPES, ids=str)
def test_every_bit_of_a_graph_float_survives_static_reshape(client: Client, data_type: DataType):
    patterns = make_patterns(data_type)
    output = client.static_reshape(patterns, [16, -1], special_zero=False)
    assert (output.dtype, output.tobytes()) == (patterns.dtype, patterns.tobytes())


@pytest.mark.parametrize("data_type", GRAPH_TYPES, ids=str)
def test_every_bit_of_a_graph_float_survives_dynamic_reshape(client: Client, data_type: DataType):
    patterns = make_patterns(data_type)
    output = client.dynamic_reshape(patterns, [16, -1], special_zero=False)
    assert (output.dtype, output.tobytes()) == (patterns.dtype, patterns.tobytes())


@pytest.mark.parametrize("name", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_reshape_takes_a_shape_of_every_integer_type(client: Client, name: str):
    assert client.reshape(ROWS, np.array([6, 4], name), special_zero=False).shape == (6, 4)


def test_big_endian_input_comes_back_with_equal_values(client: Client):
    output = client.static_reshape(ROWS.astype(">f4"), [24], special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape(-1))


def test_bfloat16_comes_back_as_bfloat16(client: Client):
    output = client.static_reshape(np.ones((2, 2), ml_dtypes.bfloat16), [4], special_zero=False)
    assert output.dtype == ml_dtypes.bfloat16


def test_a_nested_list_of_python_numbers_is_an_array(client: Client):
    assert client.reshape([[1, 2], [3, 4]], [4], special_zero=False).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("target", [[], [1], [-1], [1, 1, 1]], ids=str)
def test_a_scalar_takes_every_shape_of_one_element(client: Client, target: list[int]):
    output = client.static_reshape(np.float32(2.5), target, special_zero=False)
    np.testing.assert_array_equal(output, np.full([1] * len(target), 2.5, np.float32), strict=True)


@pytest.mark.parametrize("target", [[0], [-1], [3, -1], [5, 0]], ids=str)
def test_an_empty_tensor_keeps_its_type(client: Client, target: list[int]):
    output = client.static_reshape(np.empty((0, 3), np.float16), target, special_zero=False)
    assert (output.dtype, output.shape) == (np.dtype(np.float16), tuple(0 if item == -1 else item for item in target))


def test_reshape_lets_copied_dims_of_an_empty_tensor_leave_the_division(client: Client):
    assert client.reshape(np.empty((4, 0, 2)), [-1, 0], special_zero=True).shape == (8, 0)


def test_static_reshape_takes_rank_12(client: Client):
    output = client.static_reshape(ROWS.reshape([1] * 9 + [2, 3, 4]), [2] + [1] * 10 + [12], special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape([2] + [1] * 10 + [12]), strict=True)


def test_reshape_takes_rank_64(client: Client):
    output = client.reshape(ROWS.reshape([1] * 61 + [2, 3, 4]), [24] + [1] * 63, special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape([24] + [1] * 63), strict=True)


def test_an_expected_shape_that_holds_changes_nothing(client: Client):
    output = client.static_reshape(ROWS, [0, -1], special_zero=True, expected_shape=[None, 12])
    assert output.shape == (2, 12)


def test_an_array_above_the_default_limits_of_grpc_goes_through(client: Client):
    large = np.arange(3 * 2**20, dtype=np.float32)
    assert client.static_reshape(large, [3, -1], special_zero=False).tobytes() == large.tobytes()
