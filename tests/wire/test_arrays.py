"""Conversion between arrays and tensors keeps every bit, with packed elements in bounded memory."""

import io
from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from meters import measure_peak
from strategies import make_packable
from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import (
    DTYPES,
    UNNAMED_IN_FILES,
    Array,
    build_array,
    find_data_type,
    gather,
    pack,
    unpack,
    view_array,
)
from tensor_reshape.wire.tensors import TensorView

MAX = 2**63 - 1


NAMED_TYPES = list(DTYPES)
WHOLE_TYPES = [data_type for data_type in DTYPES if data_type.bits >= 8]


def build_pattern(data_type: DataType, count: int) -> Array:
    """Every bit pattern of one byte, at every position of an element: NaNs with all payloads, and unusual booleans."""
    if data_type.bits < 8:
        return make_packable(data_type, np.arange(count) * 11)
    raw = np.arange(count * data_type.bits // 8, dtype=np.uint64) * 83 % 256
    return raw.astype(np.uint8).view(DTYPES[data_type])


def assert_survives(array: Array) -> TensorView:
    """Sends an array there and back. The sent array has the same shape and elements, and at most the dense size."""
    tensor = view_array(array, "data")
    assert tensor.dims == array.shape
    assert tensor.check_layout("data") is tensor
    assert tensor.payload.nbytes <= array.nbytes
    assert tensor.payload.contiguous
    assert (tensor.payload.ndim, tensor.payload.itemsize) == (1, 1)
    twin = build_array(tensor)
    assert (twin.shape, twin.dtype) == (array.shape, DTYPES[tensor.data_type])
    dense = np.ascontiguousarray(array).astype(DTYPES[tensor.data_type], copy=False).tobytes()
    assert twin.tobytes() == dense
    assert gather(tensor) == (tensor.payload if tensor.data_type.bits < 8 else dense)
    return tensor


def is_kept_in_a_file(dtype: np.dtype[np.generic]) -> bool:
    file = io.BytesIO()
    np.save(file, np.zeros(2, dtype))
    file.seek(0)
    try:
        return bool(np.load(file).dtype == dtype)
    except ValueError:  # numpy cannot parse the name
        return False


def test_npy_file_keeps_the_numpy_dtype():
    assert {data_type for data_type, dtype in DTYPES.items() if not is_kept_in_a_file(dtype)} == set(UNNAMED_IN_FILES)


# The layout of 24 elements, the strides on the wire in elements (None: dense), and the number of sent elements.
LAYOUTS: dict[str, tuple[Callable[[Array], Array], tuple[int, ...] | None, int]] = {
    "row-major": (lambda array: array, None, 24),
    "transposed": (lambda array: array.T, (1, 4, 12), 24),
    "channels last": (lambda array: array.transpose(0, 2, 1), (12, 1, 4), 24),
    "column-major": (np.asfortranarray, (1, 2, 6), 24),
    "one column": (lambda array: array[:, :, 1:2].transpose(2, 0, 1), None, 6),
    "transposed with dims of one": (lambda array: array.T[None, :, None], (0, 1, 0, 4, 12), 24),
    "row gaps": (lambda array: array[:, :, :2], None, 12),
    "reversed": (lambda array: array[::-1, :, ::-1], None, 24),
    "broadcast in front": (lambda array: np.broadcast_to(array, (5, *array.shape)), (0, 12, 4, 1), 24),
    "broadcast and transposed": (
        lambda array: np.broadcast_to(array, (5, *array.shape)).transpose(3, 0, 2, 1),
        (1, 0, 4, 12),
        24,
    ),
    "one element for all": (lambda array: np.broadcast_to(array[0, 0, 0], (7, 3)), (0, 0), 1),
    "windows that overlap": (
        lambda array: np.ndarray((4, 5), array.dtype, buffer=array, strides=(array.itemsize, array.itemsize)),
        None,
        20,
    ),
    "no dims": (lambda array: array[1, 2, 3], None, 1),
    "empty": (lambda array: array[:, :0], None, 0),
}


@pytest.mark.parametrize("data_type", NAMED_TYPES, ids=str)
def test_arrays_of_every_layout_survive_a_tensor_round_trip(data_type: DataType):
    array = build_pattern(data_type, 24).reshape(2, 3, 4)
    for name, (lay, _, _) in LAYOUTS.items():
        assert assert_survives(np.asarray(lay(array))).data_type is data_type, name
    big = array.view(f"u{array.itemsize}").byteswap().view(array.dtype.newbyteorder(">"))
    for name in ("row-major", "transposed", "row gaps", "reversed", "broadcast in front"):
        tensor = assert_survives(np.asarray(LAYOUTS[name][0](big)))
        assert tensor.data_type is data_type
        assert gather(tensor) == gather(view_array(np.ascontiguousarray(LAYOUTS[name][0](array)), "data")), name


def test_contiguous_array_is_encoded_without_a_copy():
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    for name, (lay, strides, count) in LAYOUTS.items():
        tensor = view_array(np.asarray(lay(array)), "data")
        assert (tensor.strides and tuple(tensor.strides)) == strides, name
        assert tensor.payload.nbytes == count * 2, name
        if name in {"row-major", "transposed", "channels last", "broadcast in front"}:
            assert np.shares_memory(np.asarray(tensor.payload), array), name


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any view of an array by basic slicing, transposing or broadcasting."""
    shape = draw(st.lists(st.integers(0, 4), max_size=5).map(tuple))
    array = build_pattern(draw(st.sampled_from(NAMED_TYPES)), prod(shape)).reshape(shape)
    slices = tuple(
        slice(draw(st.integers(0, 2)), None, draw(st.sampled_from([1, 1, 2, -1, 3])))
        if draw(st.booleans())
        else slice(None)
        for _ in shape
    )
    array = np.asarray(array[slices]).transpose(draw(st.permutations(range(len(shape)))))
    wide = tuple(draw(st.integers(1, 3)) if dim == 1 else dim for dim in array.shape)
    return np.broadcast_to(array, (*draw(st.lists(st.integers(0, 3), max_size=2)), *wide))


@given(arrays())
def test_numpy_views_survive_a_tensor_round_trip(array: Array):
    assert_survives(array)


@st.composite
def strided_tensors(draw: st.DrawFn) -> TensorView:
    """Any strides over enough bytes, including dims and strides of 0, and overlaps."""
    axes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4))
    dims, strides = [dim for dim, _ in axes], [stride for _, stride in axes]
    span = 0 if 0 in dims else 1 + sum((dim - 1) * stride for dim, stride in axes)
    data_type = draw(st.sampled_from(WHOLE_TYPES))
    payload = memoryview(build_pattern(data_type, span).tobytes())
    return TensorView(data_type, tuple(dims), tuple(strides), payload)


@given(strided_tensors())
def test_strided_tensor_elements_are_gathered_like_numpy(tensor: TensorView):
    size = tensor.data_type.bits // 8
    strides = [stride * size for stride in tensor.strides or ()]
    items = np.frombuffer(tensor.payload or bytes(size), f"V{size}")
    assert gather(tensor) == np.ascontiguousarray(as_strided(items, tensor.dims, strides)).tobytes()


def test_dense_tensor_elements_are_not_copied():
    payload = memoryview(bytes(24))
    assert gather(TensorView(DataType.F32, (2, 3), None, payload)) is payload


def test_stride_of_a_dim_of_size_one_is_ignored():
    shapes: list[tuple[int, ...]] = [(1,), (1, 1), (1, 2)]
    for data_type, dims, stride in product((DataType.U8, DataType.BF16, DataType.F64), shapes, (2**60, MAX)):
        payload = memoryview(build_pattern(data_type, prod(dims)).tobytes())
        tensor = TensorView(data_type, dims, [stride if dim == 1 else 1 for dim in dims], payload)
        tensor.check_layout("data")
        assert gather(tensor) == payload == build_array(tensor).tobytes()


def test_empty_tensor_accepts_any_strides():
    for dims in ((0, 2), (2, 0), (MAX, 0, MAX)):
        tensor = TensorView(DataType.F32, dims, (MAX,) * len(dims), memoryview(b""))
        tensor.check_layout("data")
        assert gather(tensor).nbytes == 0


@pytest.mark.parametrize("data_type", [DataType.F32, DataType.F4E2M1], ids=str)
def test_array_built_from_received_bytes_is_read_only(data_type: DataType):
    array = build_array(TensorView(data_type, (2,), None, memoryview(bytes(data_type.count_bytes(2)))))
    assert not array.flags.writeable


def test_received_tensor_bytes_need_no_alignment():
    for offset in range(8):
        raw = bytes(range(8 * 4 + offset))
        tensor = TensorView(DataType.F64, (2, 2), (1, 2), memoryview(raw)[offset:])
        assert gather(tensor) == b"".join(raw[offset + 8 * at : offset + 8 * at + 8] for at in (0, 2, 1, 3))


def test_empty_shape_too_large_for_numpy_raises_value_error():
    tensor = TensorView(DataType.F32, (0, MAX, MAX), None, memoryview(b""))
    assert gather(tensor).nbytes == 0
    with pytest.raises(ValueError, match=r"Maximum allowed|too big"):
        build_array(tensor)


UNSUPPORTED: list[np.dtype[Any]] = [
    *map(np.dtype, ("c8", "c16", "O", "S4", "U4", "V4", "M8[s]", "m8[s]")),
    *(np.dtype(np.longdouble), np.dtype([("a", "<f4")]), np.dtype([("a", "<f4", (2,))]), np.dtypes.StringDType()),
    *(np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4")),
    *(np.dtype(getattr(ml_dtypes, f"float8_{name}")) for name in ("e4m3", "e4m3b11fnuz", "e4m3fnuz", "e5m2fnuz")),
]


def test_unsupported_numpy_types_are_rejected():
    for dtype in UNSUPPORTED:
        with pytest.raises(InvalidRequestError) as caught:
            view_array(np.zeros(2, dtype), "data")
        assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type"), dtype
        assert caught.value.metadata == {"dtype": str(dtype)}


def test_numpy_dtype_is_found_by_all_its_names():
    types = {
        DataType.I64: ("int", "longlong", "intp"),
        DataType.F64: ("float",),
        DataType.BOOLEAN: ("bool",),
        DataType.U64: ("ulonglong",),
        DataType.I32: ("intc",),
        DataType.F16: ("half",),
        DataType.U16: (">u2",),
        DataType.F32: ("=f4", np.dtype("<f4", metadata={"unit": "m"})),
    }
    for data_type, names in types.items():
        assert {find_data_type(np.dtype(name), "data") for name in names} == {data_type}


MIB = 1 << 20
PACKED = [data_type for data_type in DTYPES if data_type.is_packed]
data_types = st.sampled_from(PACKED)


def pack_plainly(data_type: DataType, values: list[int]) -> bytes:
    """Puts each element after the previous one, beginning with the lowest bits of an integer of any size."""
    number = sum(value << (index * data_type.bits) for index, value in enumerate(values))
    return number.to_bytes(data_type.count_bytes(len(values)), "little")


def widen(data_type: DataType, value: int) -> int:
    """Returns the byte of ml_dtypes for an element with these bits."""
    negative = data_type.kind is ElementKind.SIGNED and value >> (data_type.bits - 1)
    return value | (0xFF << data_type.bits & 0xFF) if negative else value


def unpack_bytes(data_type: DataType, packed: bytes, count: int) -> bytes:
    elements = np.full(count, 0xAA, np.uint8)
    unpack(data_type, np.frombuffer(packed, np.uint8), elements)
    return elements.tobytes()


@st.composite
def values(draw: st.DrawFn) -> tuple[DataType, list[int]]:
    data_type = draw(data_types)
    return data_type, draw(st.lists(st.integers(0, 2**data_type.bits - 1), max_size=70))


@given(values(), st.integers(0, 255))
def test_packed_elements_have_no_padding_bits_between_them(sample: tuple[DataType, list[int]], noise: int):
    data_type, items = sample
    packed = bytearray(pack_plainly(data_type, items))
    elements = bytes(widen(data_type, item) for item in items)
    assert pack(data_type, np.frombuffer(elements, np.uint8)).tobytes() == packed
    # Other bits of an element in memory have no effect, and neither do unused bits after the last element.
    noisy = np.array([item | noise << data_type.bits & 0xFF for item in items], np.uint8)
    assert pack(data_type, noisy).tobytes() == packed
    used = len(items) * data_type.bits % 8
    if used:
        packed[-1] |= noise << used & 0xFF
    assert unpack_bytes(data_type, bytes(packed), len(items)) == elements


@pytest.mark.parametrize("data_type", PACKED, ids=str)
def test_packed_elements_match_ml_dtypes(data_type: DataType):
    every = bytes(range(256))
    elements = np.frombuffer(unpack_bytes(data_type, every, 256 * data_type.group_items), DTYPES[data_type])
    twin = elements.astype(np.float32).astype(DTYPES[data_type])
    np.testing.assert_array_equal(twin, elements, strict=True)
    assert pack(data_type, twin.view(np.uint8)).tobytes() == every


def test_packing_returns_whole_byte_types_unchanged():
    elements = np.arange(7, dtype=np.uint8)
    assert pack(DataType.U8, elements) is elements
    assert unpack_bytes(DataType.F32, b"abcdefgh", 8) == b"abcdefgh"


def test_packing_elements_allocates_only_the_result():
    elements, packed = np.zeros(32 * MIB, np.uint8), np.zeros(16 * MIB, np.uint8)
    assert measure_peak(lambda: pack(DataType.U4, elements)) < 17 * MIB
    assert measure_peak(lambda: unpack(DataType.I4, packed, elements)) < MIB
