"""Strided arrays through a real server: the answer is their row-major reading."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from server_processes import ServerProcess
from tensor_reshape.client import Client
from tensor_reshape.wire.arrays import Array

CUBE = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
LAYOUTS = {
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


@pytest.mark.parametrize("array", LAYOUTS.values(), ids=LAYOUTS)
def test_a_strided_array_is_read_in_row_major_order(client: Client, array: Array):
    output = client.static_reshape(array, [-1], special_zero=False)
    np.testing.assert_array_equal(output, array.reshape(-1), strict=True)


@pytest.mark.parametrize("array", LAYOUTS.values(), ids=LAYOUTS)
def test_a_strided_array_keeps_its_shape_where_the_target_copies_it(client: Client, array: Array):
    output = client.static_reshape(array, [0] * array.ndim, special_zero=True)
    np.testing.assert_array_equal(output, array, strict=True)


def test_a_strided_shape_array_is_read_in_its_logical_order(client: Client):
    target = np.array([[2, 99], [60, 99]], np.int32)[:, 0]
    assert client.dynamic_reshape(CUBE, target, special_zero=False).shape == (2, 60)


def test_a_broadcast_shape_array_is_read_element_by_element(client: Client):
    target = np.broadcast_to(np.int64(1), (5,))
    assert client.reshape(np.float64(1), target, special_zero=False).shape == (1, 1, 1, 1, 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_view_of_any_array_comes_back_as_numpy_reads_it(server: ServerProcess, data: st.DataObject):
    dtype = data.draw(st.sampled_from(["?", "i1", "<u2", ">i4", "<f4", "<f8"]))
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    array = np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)
    view = array.transpose(data.draw(st.permutations(range(array.ndim))))
    view = np.asarray(view[data.draw(arrays.basic_indices(view.shape, allow_ellipsis=False))])
    wide = np.broadcast_to(view, (data.draw(st.integers(1, 3)), *view.shape))
    with Client(server.address) as client:
        output = client.reshape(wide, [-1] if wide.size else [0], special_zero=False)
    assert output.tobytes() == wide.astype(wide.dtype.newbyteorder("<")).tobytes()
