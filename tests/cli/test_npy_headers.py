"""Headers of .npy, beside numpy's own reader and writer."""

import io

import numpy as np
import pytest

from tensor_reshape.cli.npy_headers import Placement, build_npy, read_npy
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES


@pytest.mark.parametrize("data_type", DTYPES, ids=str)
def test_numpy_reads_what_is_written(data_type: DataType):
    array = np.arange(6).astype(DTYPES[data_type]).reshape(2, 3)
    read = np.load(io.BytesIO(build_npy(data_type, [2, 3]) + array.tobytes()))
    assert (read.shape, read.tobytes()) == ((2, 3), array.tobytes())
    assert read.dtype.kind == "V" if data_type in UNNAMED_IN_FILES else read.dtype == array.dtype


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dims", [(), (0,), (2, 3), (0, 5), (2, 3, 4)], ids=str)
def test_what_numpy_writes_is_read(dims: tuple[int, ...], order: str):
    array = np.asarray(np.arange(np.prod(dims, dtype=int), dtype=">i2").reshape(dims), order=order)  # type: ignore[call-overload]
    buffer = io.BytesIO()
    np.save(buffer, array)
    buffer.seek(0)
    np.testing.assert_array_equal(read_npy(buffer).view(buffer.getbuffer()), array, strict=True)


def test_elements_begin_where_they_are_aligned():
    assert len(build_npy(DataType.F64, [3, 5])) % 64 == 0


def test_python_objects_are_never_loaded():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object))
    buffer.seek(0)
    with pytest.raises(ValueError, match="Python objects"):
        read_npy(buffer)


def test_records_are_no_tensors():
    with pytest.raises(ValueError, match="records"):
        read_npy(io.BytesIO(b"\x93NUMPY\x03\x00"))


@pytest.mark.parametrize("dims", [(7,), (2**70,), (-1,), (-2, -3)], ids=str)
def test_a_header_that_tells_of_more_than_there_is_is_refused(dims: tuple[int, ...]):
    with pytest.raises(ValueError, match="are to follow"):
        Placement(8, DTYPES[DataType.U8], dims).view(memoryview(bytes(14)))
