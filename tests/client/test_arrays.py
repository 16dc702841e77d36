"""Accepted arrays, and errors for others that name a type to use instead. `tests/frameworks` tests torch and jax."""

import array
import mmap
from collections.abc import Callable
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

from tensor_reshape.client.arrays import is_array, read_array
from tensor_reshape.wire.arrays import Array

SIX = np.arange(6, dtype=np.float32)
HOLES = np.array([1.0, np.nan])


class Exporter:
    """An array that supports only DLPack, in the memory of a device of this type."""

    def __init__(self, exported: Array, device_type: int = 1) -> None:
        self._exported = exported
        self._device_type = device_type

    def __dlpack__(self, **wanted: Any) -> object:
        return cast("Any", self._exported).__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device_type, 0


class Interface:
    """An array that supports only `__array_interface__`."""

    def __init__(self, exported: Array) -> None:
        self.__array_interface__ = exported.__array_interface__
        self._exported = exported  # keeps the memory alive


class Column:
    """A column of a table, like those of Polars and pandas, which represent nulls in different ways."""

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        return self._numbers


class PolarsColumn(Column):
    """A column of Polars, which has a method that counts nulls."""

    def null_count(self) -> int:
        return int(np.isnan(self._numbers.astype(float)).sum())


class PandasColumn(Column):
    """A column of pandas. It also counts NaNs, which are nulls only if the type is one of pandas itself."""

    def __init__(self, numbers: Array, dtype: object) -> None:
        super().__init__(numbers)
        self.dtype = dtype

    def isna(self) -> Array:
        return np.isnan(self._numbers)


class Table(Column):
    """A table with several columns."""

    columns = ("a", "b")


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (SIX, SIX),
        (SIX[::2], SIX[::2]),
        (SIX.reshape(2, 3).T, SIX.reshape(2, 3).T),
        (SIX.data, SIX),
        (array.array("f", SIX.tolist()), SIX),
        (Exporter(SIX), SIX),
        (Interface(SIX), SIX),
    ],
    ids=["numpy", "strided", "transposed", "memoryview", "array.array", "DLPack", "interface"],
)
def test_numpy_arrays_are_read_without_a_copy(given: object, numbers: Array):
    read, again = read_array(given, "data"), read_array(given, "data")
    np.testing.assert_array_equal(read, numbers, strict=True)
    assert np.shares_memory(read, again)


def map_memory(raw: bytes) -> mmap.mmap:
    mapped = mmap.mmap(-1, len(raw))
    mapped.write(raw)
    return mapped


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8), map_memory])
def test_bytes_and_memoryviews_are_read_as_uint8_arrays(make: Callable[[bytes], object]):
    read = read_array(make(SIX.tobytes()), "data")
    assert (read.dtype, read.tobytes()) == (np.dtype(np.uint8), SIX.tobytes())


def test_numbers_and_lists_are_converted_like_numpy():
    rows: list[tuple[object, type[np.generic], tuple[int, ...]]] = [
        ([[1, 2], [3, 4]], np.int64, (2, 2)),
        ((1.5, 2), np.float64, (2,)),
        ([np.float16(1), np.float16(2)], np.float16, (2,)),
        ([True], np.bool_, (1,)),
        ([], np.float64, (0,)),
        (7, np.int64, ()),
        (np.float32(7), np.float32, ()),
        (ml_dtypes.bfloat16(7), ml_dtypes.bfloat16, ()),
    ]
    for given, dtype, shape in rows:
        read = read_array(given, "data")
        assert (read.dtype, read.shape) == (np.dtype(dtype), shape), given


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([SIX, SIX], r"data is a list of arrays.*numpy\.stack"),
        ((SIX,), "data is a list of arrays"),
        ([[1.0], SIX], "data is a list of arrays"),
        ([Exporter(SIX)], "data is a list of arrays"),
        ([[[1.0]], ([SIX],)], "data is a list of arrays"),
        (np.ma.masked_array(SIX, SIX > 3), "data has masked elements, which cannot be sent: fill the array first"),
        (Column(np.ma.masked_array(SIX, SIX > 2)), "masked elements"),
        (PolarsColumn(HOLES), "data has nulls: fill them"),
        (PandasColumn(HOLES, "Float64"), "data has nulls: fill them"),
        (Table(SIX), "data is a table: pass one of its columns"),
        *((Exporter(SIX, device), "data is a .*Exporter on a device: pass a copy in the mem") for device in (2, 8, 10)),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_error_for_an_unusable_array_suggests_a_replacement(given: object, text: str):
    with pytest.raises(TypeError, match=text):
        read_array(given, "data")


def test_nested_lists_with_ragged_rows_are_rejected():
    with pytest.raises(ValueError, match="data has rows of different lengths"):
        read_array([[1, 2], [3]], "data")


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        (Exporter(SIX, 3), SIX),
        (Exporter(SIX, 11), SIX),
        (PolarsColumn(SIX), SIX),
        (PandasColumn(SIX, "Float32"), SIX),
        (PandasColumn(HOLES, HOLES.dtype), HOLES),
    ],
    ids=["pinned for CUDA", "pinned for ROCm", "Polars", "pandas", "NaN"],
)
def test_pinned_memory_and_dataframe_columns_are_read_as_arrays(given: object, numbers: Array):
    np.testing.assert_array_equal(read_array(given, "data"), numbers)


def test_is_array_distinguishes_arrays_from_sequences():
    assert [is_array(value) for value in (SIX, Exporter(SIX))] == [True, True]
    assert [is_array(value) for value in ([2, 3], range(3), np.int64(3))] == [False, False, False]
