"""Arrays of elements below one byte, through both clients: packed on the way, in every layout and every transfer."""

from collections.abc import Iterator
from typing import get_args

import ml_dtypes
import numpy as np
import pytest

from both_clients import CLIENTS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import DataType, InvalidRequestError, PackedTensor, Reason
from tensor_reshape.client.transfers import Way
from tensor_reshape.wire.arrays import DTYPES, Array
from tensor_strategies import make_packable

PACKED = [data_type for data_type in DTYPES if data_type.is_packed]


@pytest.fixture(params=CLIENTS)
def any_client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=7) as client:
        yield client


def make_array(data_type: DataType) -> Array:
    """Returns 5 x 7 x 3 elements, so the last byte is not full."""
    return make_packable(data_type, np.arange(105) * 7).reshape(5, 7, 3)


@pytest.mark.parametrize("data_type", PACKED, ids=str)
@pytest.mark.parametrize("way", get_args(Way))
def test_an_array_comes_back_whatever_its_layout(any_client: AnyClient, data_type: DataType, way: Way):
    array = make_array(data_type)
    for data in (array, array.T, array[::2], np.broadcast_to(array[:1], (4, 7, 3)), array[:0], array[0, 0, 0]):
        output = any_client.reshape(data, [-1, 1], transfer=way)
        np.testing.assert_array_equal(output, data.reshape(-1, 1), strict=True)


@pytest.mark.parametrize("way", ["inline", "stream"])
def test_an_array_lands_where_the_caller_says(any_client: AnyClient, way: Way):
    array, out = make_array(DataType.I4), np.empty((7, 15), ml_dtypes.int4)
    assert any_client.reshape(array, [7, -1], transfer=way, out=out) is out
    np.testing.assert_array_equal(out, array.reshape(7, 15), strict=True)


def test_progress_is_told_in_the_bytes_that_travel(any_client: AnyClient):
    told: list[tuple[int, int]] = []
    any_client.reshape(make_array(DataType.U2), [-1], transfer="stream", progress=lambda *at: told.append(at))
    assert told[-1] == (27, 27)


def test_an_array_is_the_same_as_its_packed_bytes(any_client: AnyClient):
    array = np.array([1, 2, 3, 4, 5], ml_dtypes.uint4)
    tensor: object = any_client.reshape(PackedTensor(DataType.U4, [5], b"\x21\x43\xf5"), [5, 1])
    assert tensor == PackedTensor(DataType.U4, [5, 1], b"\x21\x43\xf5")
    assert any_client.reshape(array, [5, 1]).tolist() == [[1], [2], [3], [4], [5]]


def test_the_operations_of_the_graph_specification_take_none(any_client: AnyClient):
    for data in (make_array(DataType.F4E2M1), PackedTensor(DataType.NF4, [2], b"\x21")):
        with pytest.raises(InvalidRequestError) as caught:
            any_client.static_reshape(data, [-1])
        assert caught.value.reason == Reason.DATA_TYPE_UNSUPPORTED
