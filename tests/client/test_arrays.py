"""What is taken as an array, and what is refused with words that say what to pass; torch, jax: `tests/frameworks`."""

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


class Exporter:
    """An array that knows DLPack alone, in the memory of a device of that type."""

    def __init__(self, exported: Array, device_type: int = 1) -> None:
        self._exported = exported
        self._device_type = device_type

    def __dlpack__(self, **wanted: Any) -> object:
        return cast("Any", self._exported).__dlpack__(**wanted)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device_type, 0


class Interface:
    """An array that knows `__array_interface__` alone."""

    def __init__(self, exported: Array) -> None:
        self.__array_interface__ = exported.__array_interface__
        self._exported = exported  # whose memory it is


def map_memory() -> mmap.mmap:
    mapped = mmap.mmap(-1, 24)
    mapped.write(SIX.tobytes())
    return mapped


@pytest.mark.parametrize(
    "given",
    [
        SIX,
        SIX[::2],
        SIX.reshape(2, 3).T,
        SIX.data,
        array.array("f", SIX.tolist()),
        Exporter(SIX),
        Interface(SIX),
    ],
    ids=["numpy", "strided", "transposed", "memoryview", "array.array", "DLPack", "interface"],
)
def test_what_lies_in_memory_is_read_where_it_lies(given: object):
    read, again = read_array(given, "data"), read_array(given, "data")
    assert (read.dtype, np.shares_memory(read, again)) == (np.dtype(np.float32), True)
    assert set(read.ravel().tolist()) <= set(SIX.tolist())


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, np.frombuffer, lambda _: map_memory()])
def test_bytes_of_any_kind_are_numbers_of_eight_bits(make: Callable[..., Any]):
    given = make(SIX.tobytes()) if make is not np.frombuffer else np.frombuffer(SIX.tobytes(), np.uint8)
    read = read_array(given, "data")
    assert (read.dtype, read.tobytes()) == (np.dtype(np.uint8), SIX.tobytes())


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        ([[1, 2], [3, 4]], np.int64, (2, 2)),
        ((1.5, 2), np.float64, (2,)),
        ([np.float16(1), np.float16(2)], np.float16, (2,)),
        ([True], np.bool_, (1,)),
        ([], np.float64, (0,)),
        (7, np.int64, ()),
        (np.float32(7), np.float32, ()),
        (ml_dtypes.bfloat16(7), ml_dtypes.bfloat16, ()),
    ],
    ids=str,
)
def test_numbers_of_python_and_lists_of_them_are_what_numpy_makes_of_them(
    given: object, dtype: type[np.generic], shape: tuple[int, ...]
):
    read = read_array(given, "data")
    assert (read.dtype, read.shape) == (np.dtype(dtype), shape)


@pytest.mark.parametrize(
    "given",
    [[SIX, SIX], (SIX,), [[1.0], SIX], [Exporter(SIX)], [[[1.0]], ([SIX],)]],
    ids=["list", "tuple", "mixed", "DLPack", "nested"],
)
def test_a_list_of_arrays_is_not_one(given: object):
    with pytest.raises(TypeError, match=r"data is a list of arrays.*numpy\.stack"):
        read_array(given, "data")


def test_what_a_mask_hides_is_never_sent():
    with pytest.raises(TypeError, match="fill it first"):
        read_array(np.ma.masked_array(SIX, SIX > 3), "data")


@pytest.mark.parametrize("device_type", [2, 8, 10], ids=["CUDA", "Metal", "ROCm"])
def test_an_array_on_a_device_is_refused(device_type: int):
    with pytest.raises(
        TypeError, match=r"shape is a .*Exporter on a device: pass a copy in the memory of this process"
    ):
        read_array(Exporter(SIX, device_type), "shape")


@pytest.mark.parametrize("device_type", [3, 11], ids=["pinned for CUDA", "pinned for ROCm"])
def test_pinned_memory_is_no_device(device_type: int):
    assert read_array(Exporter(SIX, device_type), "data").tobytes() == SIX.tobytes()


@pytest.mark.parametrize(
    ("value", "is_one"),
    [(SIX, True), (Exporter(SIX), True), ([2, 3], False), (range(3), False), (np.int64(3), False)],
    ids=lambda value: type(value).__name__,
)
def test_an_array_has_a_type_of_its_own_and_a_sequence_has_none(value: object, *, is_one: bool):
    assert is_array(value) == is_one


class Column:
    """A column of a table, as Polars and pandas have them: each has its own word for nulls."""

    def __init__(self, numbers: Array) -> None:
        self._numbers = numbers

    def __array__(self, dtype: object = None, copy: object = None) -> Array:
        return self._numbers


class PolarsColumn(Column):
    """Counts them by a method."""

    def null_count(self) -> int:
        return int(np.isnan(self._numbers.astype(float)).sum())


class PandasColumn(Column):
    """Counts NaNs as well, which are nulls where the type is pandas' own."""

    def __init__(self, numbers: Array, dtype: object) -> None:
        super().__init__(numbers)
        self.dtype = dtype

    def isna(self) -> Array:
        return np.isnan(self._numbers)


class Table(Column):
    """Several columns."""

    @property
    def columns(self) -> list[str]:
        return ["a", "b"]


HOLES = np.array([1.0, np.nan])


@pytest.mark.parametrize(
    "given",
    [PolarsColumn(SIX), PandasColumn(SIX, "Float32"), PandasColumn(HOLES, HOLES.dtype)],
    ids=["Polars", "pandas", "NaN"],
)
def test_a_column_without_nulls_is_read(given: Column):
    np.testing.assert_array_equal(read_array(given, "data"), np.asarray(given))


@pytest.mark.parametrize("given", [PolarsColumn(HOLES), PandasColumn(HOLES, "Float64")], ids=["Polars", "pandas"])
def test_no_null_becomes_a_nan(given: Column):
    with pytest.raises(TypeError, match=r"data has nulls, .* fill them"):
        read_array(given, "data")


def test_a_table_is_refused():
    with pytest.raises(TypeError, match="data is a table: pass one of its columns"):
        read_array(Table(SIX), "data")


def test_no_mask_is_dropped_of_what_gives_a_masked_array():
    with pytest.raises(TypeError, match="a masked array"):
        read_array(Column(np.ma.masked_array(SIX, SIX > 2)), "data")
