"""Arrays and tensors of PyArrow: read without a copy; nulls and tables are rejected."""

from typing import Any

import numpy as np
import pytest

from both_clients import AnyClient
from tensor_reshape.client import DataType
from tensor_reshape.client.arrays import find_framework, read_array
from tensor_reshape.wire.arrays import DTYPES

pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed: scripts/verify frameworks installs it")

OF_NUMPY = [
    data_type
    for data_type, dtype in DTYPES.items()
    if dtype.type.__module__ == "numpy" and data_type is not DataType.BOOLEAN
]
TWO_BY_THREE = np.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("way", ["inline", "stream", "view"])
def test_pyarrow_tensor_round_trip_keeps_every_supported_type(any_client: AnyClient, way: str):
    for data_type in OF_NUMPY:
        numbers = np.arange(48, dtype=np.uint8).view(DTYPES[data_type]).reshape(2, -1)
        tensor = pyarrow.Tensor.from_numpy(numbers.T)  # with strides
        output: Any = any_client.reshape(tensor, [-1], transfer=way, like=tensor)
        assert isinstance(output, pyarrow.Tensor), data_type
        assert output.to_numpy().tobytes() == numbers.T.tobytes(), data_type


@pytest.mark.parametrize(
    "array",
    [
        pyarrow.array(TWO_BY_THREE.ravel()),
        pyarrow.chunked_array([TWO_BY_THREE[0], TWO_BY_THREE[1]]),
        pyarrow.FixedShapeTensorArray.from_numpy_ndarray(TWO_BY_THREE),
        pyarrow.Tensor.from_numpy(TWO_BY_THREE),
    ],
    ids=lambda array: type(array).__name__,
)
def test_pyarrow_containers_of_numbers_are_read_as_arrays(any_client: AnyClient, array: object):
    output = any_client.reshape(array, pyarrow.array([3, 2]))
    np.testing.assert_array_equal(output, TWO_BY_THREE.reshape(3, 2), strict=True)


def test_pyarrow_booleans_are_unpacked_and_others_not_copied():
    array = pyarrow.array(TWO_BY_THREE.ravel())
    assert read_array(array, "data").ctypes.data == array.buffers()[1].address
    assert read_array(pyarrow.array([True, False]), "data").tolist() == [True, False]


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (pyarrow.array([1, None]), "fill_null"),
        (pyarrow.chunked_array([[1], [None]]), "fill_null"),
        (
            pyarrow.ExtensionArray.from_storage(
                pyarrow.fixed_shape_tensor(pyarrow.int32(), [2]),
                pyarrow.array([[1, None]], pyarrow.list_(pyarrow.int32(), 2)),
            ),
            "fill_null",
        ),
        (pyarrow.table({"a": [1]}), "one of its columns"),
        (pyarrow.record_batch({"a": [1]}), "one of its columns"),
    ],
    ids=["null", "null in chunks", "null in a tensor", "table", "batch"],
)
def test_pyarrow_nulls_and_tables_are_rejected(array: object, what: str):
    with pytest.raises(TypeError, match=what):
        read_array(array, "data")


def test_read_only_pyarrow_output_is_marked_immutable(any_client: AnyClient):
    output: Any = any_client.reshape(TWO_BY_THREE, [6], like=pyarrow)
    writable: Any = any_client.reshape(TWO_BY_THREE, [6], like=pyarrow, writable=True)
    assert (output.is_mutable, writable.is_mutable) == (False, True)


def test_data_type_missing_in_pyarrow_is_rejected_before_a_call():
    for data_type in DTYPES.keys() - set(OF_NUMPY):
        with pytest.raises(TypeError, match=f"pyarrow.Tensor has no type {data_type}"):
            find_framework(pyarrow, data_type)
