"""Arrays are reshaped by a server in a separate process, in one message and in chunks."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from both_clients import CALLERS, CLIENTS, open_client
from server_processes import ServerProcess
from strategies import make_packable
from tensor_reshape.client import Client
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, Array

WAYS = ["inline", "stream"]
ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
COLUMNS = np.asfortranarray(ROWS)
STRIDED_TARGET = np.array([[8, 99], [3, 99]], np.int16)[:, 0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("index", [0, 1], ids=["TCP", "unix socket"])
def test_each_operation_is_served_on_each_listen_address(server: ServerProcess, kind: str, index: int, way: str):
    def check(output: Array, *shape: int) -> None:
        np.testing.assert_array_equal(output, ROWS.reshape(shape), strict=True)

    with open_client(kind, server.addresses[index]) as client:
        for array in (ROWS, COLUMNS):
            check(client.static_reshape(array, [0, -1], special_zero=True, transfer=way), 2, 12)
            check(client.dynamic_reshape(array, np.array([4, -1], np.int32), transfer=way), 4, 6)
            check(client.reshape(array, [-1, 0], special_zero=True, transfer=way), 8, 3)
        check(client.reshape(ROWS, STRIDED_TARGET, transfer=way), 8, 3)
        assert client.infer_shape([2, 3, 4], [0, -1], special_zero=True) == (2, 12)


def make_patterns(data_type: DataType) -> Array:
    """Returns elements with every byte value in every byte: NaN payloads, unusual booleans, subnormals."""
    if data_type.is_packed:
        return make_packable(data_type, np.arange(256))
    size = data_type.group_bytes
    raw = bytes((value + 37 * place) % 256 for value in range(256) for place in range(size))
    return np.frombuffer(raw, DTYPES[data_type])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CALLERS)
def test_reshape_keeps_every_bit_of_every_data_type(server: ServerProcess, kind: str, way: str):
    with open_client(kind, server.address, chunk_bytes=100) as client:
        for data_type in DTYPES:
            patterns = make_patterns(data_type)
            for array in (patterns, patterns.reshape(8, 32).T):
                output = client.reshape(array, [16, -1], transfer=way)
                same = (output.dtype, output.shape, output.tobytes()) == (array.dtype, (16, 16), array.tobytes())
                assert same, data_type


# array, requested shape, output
ARRAYS: dict[str, tuple[Any, list[int], Array]] = {
    "big-endian": (ROWS.astype(">f4"), [24], ROWS.reshape(24)),
    "bfloat16": (np.ones((2, 2), ml_dtypes.bfloat16), [4], np.ones(4, ml_dtypes.bfloat16)),
    "a nested list": ([[1, 2], [3, 4]], [4], np.array([1, 2, 3, 4])),
    "a scalar": (np.float32(2.5), [1, -1], np.full([1, 1], 2.5, np.float32)),
    "a scalar that stays one": (np.float32(2.5), [], np.array(2.5, np.float32)),
    "empty": (np.empty((0, 3), np.float16), [5, 0], np.empty((5, 0), np.float16)),
    "rank 64": (ROWS.reshape([1] * 61 + [2, 3, 4]), [24] + [1] * 63, ROWS.reshape([24] + [1] * 63)),
    "gaps between rows": (ROWS[:, :, :3], [-1], ROWS[:, :, :3].reshape(-1)),
    "reversed": (ROWS[::-1, :, ::-1], [-1], ROWS[::-1, :, ::-1].reshape(-1)),
    "broadcast and transposed": (np.broadcast_to(ROWS[0].T, (50, 4, 3)), [-1], np.tile(ROWS[0].T.reshape(-1), 50)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", CALLERS)
def test_arrays_of_every_dtype_and_memory_layout_are_reshaped(server: ServerProcess, kind: str, way: str):
    with open_client(kind, server.address, chunk_bytes=100) as client:
        for name, (array, target, want) in ARRAYS.items():
            np.testing.assert_array_equal(client.reshape(array, target, transfer=way), want, name, strict=True)


def test_array_above_the_grpc_default_message_limit_is_accepted(client: Client):
    large = np.arange(3 * 2**20, dtype=np.float32)
    assert client.static_reshape(large, [3, -1], special_zero=False).tobytes() == large.tobytes()
