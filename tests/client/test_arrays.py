"""Accepted arrays, packed tensors, and values of `like=`. `tests/frameworks` tests torch, jax and PyArrow."""

import array
import copy
import mmap
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, cast, get_args

import ml_dtypes
import numpy as np
import pytest

from both_clients import CALLERS, AnyClient, open_client
from server_processes import ServerProcess
from tensor_reshape.client import DataType, InvalidRequestError, LimitError, PackedTensor, Reason
from tensor_reshape.client.arrays import NUMPY, find_framework, is_array, read_array
from tensor_reshape.client.transfers import Way
from tensor_reshape.wire.arrays import DTYPES, Array

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
        ([1.0, [SIX]], "data is a list of arrays"),
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


class Foreign:
    """An array that implements the array API standard."""

    def __array_namespace__(self) -> types.ModuleType:
        namespace = types.ModuleType("some_array_library")
        namespace.from_dlpack = np.from_dlpack  # type: ignore[attr-defined]
        return namespace


@pytest.mark.parametrize(
    "like", [None, np, SIX, SIX.view(np.recarray), np.float32(1)], ids=["none", "module", "array", "recarray", "scalar"]
)
def test_numpy_output_is_available_for_every_data_type(like: object):
    assert {find_framework(like, data_type) for data_type in DTYPES} == {NUMPY}


def test_array_api_output_is_created_by_its_namespace():
    framework = find_framework(Foreign(), DataType.F32)
    assert np.shares_memory(framework.present(SIX), SIX)
    assert (framework.name, framework.takes_read_only) == ("some_array_library", False)
    with pytest.raises(TypeError, match=r"some_array_library .* has no type bf16"):  # numpy cannot export it
        find_framework(Foreign(), DataType.BF16)


@pytest.mark.parametrize(
    "like",
    ["torch", [1.0], b"", sys, object(), SIX.dtype, np.float32, np.ndarray],
    ids=["text", "list", "bytes", "module", "object", "dtype", "scalar type", "class"],
)
def test_like_option_rejects_objects_other_than_arrays_or_namespaces(like: object):
    with pytest.raises(TypeError, match=r"like must be an array, or a namespace such as torch or jax\.numpy"):
        find_framework(like, DataType.F32)


@pytest.fixture(params=CALLERS)
def client(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[AnyClient]:
    with open_client(request.param, server.address, chunk_bytes=7) as client:
        yield client


def make_tensor(data_type: DataType, dims: tuple[int, ...]) -> PackedTensor:
    """Returns a tensor of random bytes, including the unused bits."""
    size = data_type.count_bytes(int(np.prod(dims)))
    return PackedTensor(data_type, dims, np.random.default_rng(size).bytes(size))


@pytest.mark.parametrize("holder", [bytes, bytearray, memoryview, lambda raw: np.frombuffer(raw, np.uint8)])
def test_packed_tensor_does_not_copy_its_buffer(holder: type[bytes]):
    data = holder(b"\x21\x43\x65")
    tensor = PackedTensor(DataType.U4, [2, 3], data)
    assert (tensor.dims, bytes(tensor.data), tensor.data.readonly) == ((2, 3), b"\x21\x43\x65", True)
    assert np.shares_memory(np.frombuffer(tensor.data, np.uint8), np.frombuffer(data, np.uint8))


def test_packed_tensors_compare_by_type_shape_and_bytes():
    tensor = PackedTensor(DataType.U4, [2], b"\x21")
    assert tensor == PackedTensor(DataType.U4, (2,), bytearray(b"\x21"))
    assert tensor != PackedTensor(DataType.I4, [2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [1, 2], b"\x21")
    assert tensor != PackedTensor(DataType.U4, [2], b"\x20")


@pytest.mark.parametrize("empty", [b"", np.empty(0, np.uint8)])
def test_packed_tensor_may_be_empty(empty: bytes):
    assert PackedTensor(DataType.U1, [0, 3], empty).data.nbytes == 0


def test_packed_tensor_rejects_dims_outside_their_range():
    for dims in ([-1], [2**63]):
        with pytest.raises(InvalidRequestError, match=r"^dims\[0\] is \S+; a dimension must be from 0 to 2\^63 - 1$"):
            PackedTensor(DataType.U4, dims, b"")


@pytest.mark.parametrize("data_type", [DataType.U8, DataType.F32, DataType.F8E8M0], ids=str)
def test_packed_tensor_rejects_data_types_of_whole_bytes(data_type: DataType):
    with pytest.raises(ValueError, match="is not a packed type: pass an array"):
        PackedTensor(data_type, [1], bytes(4))


@pytest.mark.parametrize("way", get_args(Way))
def test_reshape_of_a_packed_tensor_keeps_every_bit(client: AnyClient, way: str):
    for data_type in DataType:
        for dims in ((3, 5), (8, 16), (0, 4)) if data_type.is_packed else ():
            tensor = make_tensor(data_type, dims)
            assert client.reshape(tensor, dims[::-1], transfer=way) == PackedTensor(data_type, dims[::-1], tensor.data)


def test_progress_of_a_packed_tensor_counts_packed_bytes(client: AnyClient):
    seen: list[tuple[int, int]] = []
    client.reshape(make_tensor(DataType.U3, (40,)), [-1], transfer="stream", progress=lambda *at: seen.append(at))
    assert seen[-1] == (15, 15)


def test_invalid_packed_tensor_is_rejected_before_sending(client: AnyClient):
    for size in (0, 1, 3):
        with pytest.raises(InvalidRequestError) as caught:
            client.reshape(PackedTensor(DataType.U3, [5], bytes(size)), [-1])
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_SIZE_MISMATCH, "data.data")
        assert caught.value.metadata == {"have": str(size), "want": "2"}
    with pytest.raises(InvalidRequestError) as caught:  # the rules are checked before the number of bytes
        client.reshape(PackedTensor(DataType.NF4, [5], b""), [2, -1])
    assert caught.value.reason == Reason.NOT_DIVISIBLE
    with pytest.raises(LimitError):
        client.reshape(make_tensor(DataType.U1, (1,) * 65), [-1])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_packed_tensor_can_be_pickled_and_copied(protocol: int):
    tensor = PackedTensor(DataType.U4, [2, 3], bytearray(b"\x21\x43\x65"))
    twin = pickle.loads(pickle.dumps(tensor, protocol))
    assert (twin, twin.data.readonly) == (tensor, True)
    assert copy.deepcopy(tensor) == copy.copy(tensor) == tensor


def test_packed_tensor_supports_out_of_band_pickling():
    tensor, buffers = make_tensor(DataType.U4, (2, 512)), list[pickle.PickleBuffer]()
    pickled = pickle.dumps(tensor, 5, buffer_callback=buffers.append)
    assert len(pickled) < len(tensor.data)
    assert pickle.loads(pickled, buffers=buffers) == tensor
