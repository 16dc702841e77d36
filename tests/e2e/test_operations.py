"""Arrays there and back through a server in a process of its own."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from both_clients import CLIENTS, AnyClient, open_client
from hypothesis_profiles import examples
from server_processes import ServerProcess
from tensor_reshape.client import Client
from tensor_reshape.rules.dtypes import GRAPH_FLOATS, DataType
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_strategies import make_packable

ROWS = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
CUBE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.fixture(params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address) as client:
        yield client


@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("index", [0, 1], ids=["TCP", "unix socket"])
def test_each_operation_is_served_on_each_address(server: ServerProcess, kind: str, index: int):
    def check(output: Array, *shape: int) -> None:
        np.testing.assert_array_equal(output, ROWS.reshape(shape), strict=True)

    with open_client(kind, server.addresses[index]) as client:
        check(client.static_reshape(ROWS, [0, -1], special_zero=True), 2, 12)
        check(client.dynamic_reshape(ROWS, np.array([4, -1], np.int32)), 4, 6)
        check(client.reshape(ROWS, np.array([-1, 0], np.int16), special_zero=True), 8, 3)
        check(client.reshape(ROWS, [-1, 0], special_zero=True), 8, 3)
        assert client.infer_shape([2, 3, 4], [0, -1], special_zero=True) == (2, 12)


def make_patterns(data_type: DataType) -> Array:
    """Returns every byte value in every byte of an element: NaN payloads, odd booleans, subnormals."""
    if data_type.is_packed:
        return make_packable(data_type, np.arange(256))
    size = data_type.group_bytes
    raw = bytes((value + 37 * place) % 256 for value in range(256) for place in range(size))
    return np.frombuffer(raw, DTYPES[data_type])


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_every_bit_of_every_data_type_survives(client: Client, data_type: DataType):
    patterns = make_patterns(data_type)
    methods: list[Any] = [client.reshape]
    methods += [client.static_reshape, client.dynamic_reshape] if data_type in GRAPH_FLOATS else []
    for method in methods:
        output = method(patterns, [16, -1], special_zero=False)
        assert (output.dtype, output.shape, output.tobytes()) == (patterns.dtype, (16, 16), patterns.tobytes())
    transposed = patterns.reshape(8, 32).T
    assert client.reshape(transposed, [-1], special_zero=False).tobytes() == transposed.tobytes()


def test_a_target_may_have_every_integer_type(client: Client):
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        assert client.reshape(ROWS, np.array([6, 4], name), special_zero=False).shape == (6, 4), name


# array, target, the output
ARRAYS: dict[str, tuple[Any, list[int], Array]] = {
    "big-endian": (ROWS.astype(">f4"), [24], ROWS.reshape(24)),
    "bfloat16": (np.ones((2, 2), ml_dtypes.bfloat16), [4], np.ones(4, ml_dtypes.bfloat16)),
    "a nested list": ([[1, 2], [3, 4]], [4], np.array([1, 2, 3, 4])),
    "a scalar": (np.float32(2.5), [1, -1], np.full([1, 1], 2.5, np.float32)),
    "a scalar that stays one": (np.float32(2.5), [], np.array(2.5, np.float32)),
    "empty": (np.empty((0, 3), np.float16), [5, 0], np.empty((5, 0), np.float16)),
    "empty, with -1": (np.empty((0, 3), np.float16), [3, -1], np.empty((3, 0), np.float16)),
    "rank 64": (ROWS.reshape([1] * 61 + [2, 3, 4]), [24] + [1] * 63, ROWS.reshape([24] + [1] * 63)),
}


def test_arrays_of_every_kind_are_reshaped(any_client: AnyClient):
    for name, (array, target, want) in ARRAYS.items():
        output = any_client.reshape(array, target)
        np.testing.assert_array_equal(output, want, name, strict=True)


def test_static_reshape_takes_rank_12(client: Client):
    output = client.static_reshape(ROWS.reshape([1] * 9 + [2, 3, 4]), [2] + [1] * 10 + [12], special_zero=False)
    np.testing.assert_array_equal(output, ROWS.reshape([2] + [1] * 10 + [12]), strict=True)


def test_copied_dims_of_an_empty_tensor_leave_the_division(any_client: AnyClient):
    assert any_client.reshape(np.empty((4, 0, 2)), [-1, 0], special_zero=True).shape == (8, 0)
    assert any_client.infer_shape([4, 0, 2], [-1, 0], special_zero=True, operation="reshape") == (8, 0)


def test_an_expected_shape_that_holds_changes_nothing(client: Client):
    output = client.static_reshape(ROWS, [0, -1], special_zero=True, expected_shape=[None, 12])
    assert output.shape == (2, 12)


def test_an_array_above_the_default_limits_of_grpc_goes_through(client: Client):
    large = np.arange(3 * 2**20, dtype=np.float32)
    assert client.static_reshape(large, [3, -1], special_zero=False).tobytes() == large.tobytes()


LAYOUTS: dict[str, Array] = {
    "transposed": CUBE.T,
    "channels last": np.moveaxis(np.moveaxis(CUBE, 1, -1).copy(), -1, 1),
    "gaps between rows": CUBE[:, :, :, :3],
    "every second element": CUBE[:, :, ::2, ::2],
    "reversed": CUBE[::-1, :, :, ::-1],
    "broadcast of rows": np.broadcast_to(CUBE[:, :1], (2, 7, 4, 5)),
    "broadcast of a scalar": np.broadcast_to(np.float32(3), (2, 3)),
    "broadcast and transposed": np.broadcast_to(CUBE[0, 0].T, (3, 5, 4)),
    "overlapping windows": np.lib.stride_tricks.sliding_window_view(CUBE[0, 0, 0], 3),
    "dims of one": CUBE[:1, :, :1].transpose(2, 3, 1, 0),
    "empty and transposed": CUBE[:0].T,
}


def test_a_strided_array_is_read_in_row_major_order(client: Client):
    for name, array in LAYOUTS.items():
        flat = client.static_reshape(array, [-1], special_zero=False)
        np.testing.assert_array_equal(flat, array.reshape(-1), name, strict=True)
        same = client.static_reshape(array, [0] * array.ndim, special_zero=True)
        np.testing.assert_array_equal(same, array, name, strict=True)


def test_a_strided_target_is_read_in_its_logical_order(client: Client):
    target = np.array([[2, 99], [60, 99]], np.int32)[:, 0]
    assert client.dynamic_reshape(CUBE, target, special_zero=False).shape == (2, 60)
    ones = np.broadcast_to(np.int64(1), (5,))
    assert client.reshape(np.float64(1), ones, special_zero=False).shape == (1, 1, 1, 1, 1)


@examples(60)
@given(data=st.data())
def test_every_view_is_read_as_numpy_reads_it(client: Client, data: st.DataObject):
    dtype = data.draw(st.sampled_from(["?", "i1", "<u2", ">i4", "<f4", "<f8"]))
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    view = array.transpose(data.draw(st.permutations(range(array.ndim))))
    view = np.asarray(view[data.draw(arrays.basic_indices(view.shape, allow_ellipsis=False))])
    wide = np.broadcast_to(view, (data.draw(st.integers(1, 3)), *view.shape))
    output = client.reshape(wide, [-1] if wide.size else [0], special_zero=False)
    assert output.tobytes() == wide.astype(wide.dtype.newbyteorder("<")).tobytes()
