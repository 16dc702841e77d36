"""Headers of .npy files, compared with numpy's own reader. `test_files` has headers that numpy writes."""

import io

import numpy as np
import pytest

from tensor_reshape.cli.npy_headers import Placement, build_npy, read_npy
from tensor_reshape.client import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES


def test_numpy_reads_the_written_npy_header_of_every_data_type():
    for data_type, dtype in DTYPES.items():
        array = np.arange(6).astype(dtype).reshape(2, 3)
        read = np.load(io.BytesIO(build_npy(data_type, [2, 3]) + array.tobytes()))
        assert (read.shape, read.tobytes()) == ((2, 3), array.tobytes()), data_type
        assert read.dtype.kind == "V" if data_type in UNNAMED_IN_FILES else read.dtype == array.dtype
    assert len(build_npy(DataType.F64, [3, 5])) % 64 == 0  # elements are aligned


def test_npy_files_with_python_objects_or_records_are_rejected():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object))
    buffer.seek(0)
    with pytest.raises(ValueError, match="Python objects"):
        read_npy(buffer)
    with pytest.raises(ValueError, match="records"):
        read_npy(io.BytesIO(b"\x93NUMPY\x03\x00"))


@pytest.mark.parametrize("dims", [(7,), (2**70,), (-1,), (-2, -3)], ids=str)
def test_npy_header_with_more_elements_than_the_file_is_rejected(dims: tuple[int, ...]):
    with pytest.raises(ValueError, match="but 6 follow"):
        Placement(8, DTYPES[DataType.U8], dims).view(memoryview(bytes(14)))
