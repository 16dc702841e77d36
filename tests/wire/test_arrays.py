"""Arrays become tensors and tensors arrays again, bit for bit."""

import io
from collections.abc import Callable
from math import prod

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array, build_array, find_data_type, gather, view_array
from tensor_reshape.wire.tensors import TensorView
from tensor_strategies import make_packable

MAX = 2**63 - 1


NAMED_TYPES = list(DTYPES)
WHOLE_TYPES = [data_type for data_type in DTYPES if data_type.bits >= 8]


def build_pattern(data_type: DataType, count: int) -> Array:
    """Every bit pattern of one byte, in every place of an element: NaNs of all payloads, odd booleans."""
    if data_type.bits < 8:
        return make_packable(data_type, np.arange(count) * 11)
    raw = np.arange(count * data_type.bits // 8, dtype=np.uint64) * 83 % 256
    return raw.astype(np.uint8).view(DTYPES[data_type])


def assert_survives(array: Array) -> TensorView:
    """Sends an array there and back: what arrives has its shape and its elements, and was not larger than dense."""
    tensor = view_array(array, "data")
    assert tensor.dims == array.shape
    tensor.check_layout("data")
    assert tensor.payload.nbytes <= array.nbytes
    assert tensor.payload.contiguous
    assert (tensor.payload.ndim, tensor.payload.itemsize) == (1, 1)
    twin = build_array(tensor)
    assert (twin.shape, twin.dtype) == (array.shape, DTYPES[tensor.data_type])
    dense = np.ascontiguousarray(array).astype(DTYPES[tensor.data_type], copy=False).tobytes()
    assert twin.tobytes() == dense
    assert gather(tensor) == (tensor.payload if tensor.data_type.bits < 8 else dense)
    return tensor


@pytest.mark.parametrize("data_type", WHOLE_TYPES, ids=str)
def test_an_element_lies_in_memory_as_on_the_wire(data_type: DataType):
    dtype = DTYPES[data_type]
    assert (dtype.name, 8 * dtype.itemsize) == (data_type.numpy_name, data_type.bits)
    assert dtype == dtype.newbyteorder("<")


@pytest.mark.parametrize("data_type", sorted(set(DTYPES) - set(WHOLE_TYPES)), ids=str)
def test_an_element_below_one_byte_takes_one_in_memory(data_type: DataType):
    assert (DTYPES[data_type].name, DTYPES[data_type].itemsize) == (data_type.numpy_name, 1)


@pytest.mark.parametrize("data_type", NAMED_TYPES, ids=str)
def test_a_npy_file_keeps_the_type_of_an_array_unless_it_has_no_name_for_it(data_type: DataType):
    file = io.BytesIO()
    np.save(file, np.zeros(2, DTYPES[data_type]))
    file.seek(0)
    try:
        kept = np.load(file).dtype == DTYPES[data_type]
    except ValueError:  # of a name that numpy cannot read again
        kept = False
    assert kept == (data_type not in UNNAMED_IN_FILES)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "row-major": lambda array: array,
    "transposed": lambda array: array.T,
    "channels last": lambda array: array.transpose(0, 2, 1),
    "column-major": np.asfortranarray,
    "row gaps": lambda array: array[:, :, :2],
    "one column": lambda array: array[:, 1, 2],
    "every second of one axis, reversed": lambda array: array[0, 0, ::-2],
    "every second": lambda array: array[::2, :, ::2],
    "reversed": lambda array: array[::-1, :, ::-1],
    "reversed and transposed": lambda array: array[::-1].T,
    "one axis of 1": lambda array: array[:, 1:2].transpose(2, 1, 0),
    "broadcast in front": lambda array: np.broadcast_to(array, (5, *array.shape)),
    "broadcast in between": lambda array: np.broadcast_to(array[:, :1], array.shape),
    "broadcast and transposed": lambda array: np.broadcast_to(array, (5, *array.shape)).transpose(3, 0, 2, 1),
    "broadcast with gaps": lambda array: np.broadcast_to(array[:, :, ::2], (5, 2, 3, 2)),
    "one element for all": lambda array: np.broadcast_to(array[0, 0, 0], (7, 3)),
    "windows that overlap": lambda array: np.ndarray(
        (4, 5), array.dtype, buffer=array, strides=(array.itemsize, array.itemsize)
    ),
    "no dims": lambda array: array[1, 2, 3],
    "empty": lambda array: array[:, :0],
    "empty and transposed": lambda array: array[:, :, 4:].T,
    "empty and broadcast": lambda array: np.broadcast_to(array[:0, :, :1], (3, 0, 3, 6)),
}


@pytest.mark.parametrize("data_type", NAMED_TYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS.keys())
def test_every_array_survives_bit_for_bit(data_type: DataType, layout: str):
    array = build_pattern(data_type, 24).reshape(2, 3, 4)
    tensor = assert_survives(np.asarray(LAYOUTS[layout](array)))
    assert tensor.data_type is data_type


@pytest.mark.parametrize("data_type", NAMED_TYPES, ids=str)
@pytest.mark.parametrize("layout", ["row-major", "transposed", "row gaps", "reversed", "broadcast in front"])
def test_a_big_endian_array_survives_bit_for_bit(data_type: DataType, layout: str):
    array = build_pattern(data_type, 24).reshape(2, 3, 4)
    swapped = np.asarray(
        LAYOUTS[layout](array.view(f"u{array.itemsize}").byteswap().view(array.dtype.newbyteorder(">")))
    )
    tensor = assert_survives(swapped)
    assert tensor.data_type is data_type
    assert gather(tensor) == gather(view_array(np.ascontiguousarray(LAYOUTS[layout](array)), "data"))


# What goes as it lies in memory: strides in elements, and how many elements travel. None: dense.
SENT: dict[str, tuple[tuple[int, ...] | None, int]] = {
    "row-major": (None, 24),
    "transposed": ((1, 4, 12), 24),
    "channels last": ((12, 1, 4), 24),
    "column-major": ((1, 2, 6), 24),
    "row gaps": (None, 12),
    "reversed": (None, 24),
    "broadcast in front": ((0, 12, 4, 1), 24),
    "broadcast and transposed": ((1, 0, 4, 12), 24),
    "one element for all": ((0, 0), 1),
    "windows that overlap": (None, 20),
    "no dims": (None, 1),
    "empty": (None, 0),
}


@pytest.mark.parametrize(("layout", "strides", "count"), [(key, *row) for key, row in SENT.items()], ids=SENT.keys())
def test_an_array_without_gaps_goes_as_it_lies_in_memory(layout: str, strides: tuple[int, ...] | None, count: int):
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    tensor = view_array(np.asarray(LAYOUTS[layout](array)), "data")
    assert (tensor.strides and tuple(tensor.strides)) == strides
    assert tensor.payload.nbytes == count * 2


@pytest.mark.parametrize("layout", ["row-major", "transposed", "channels last", "broadcast in front"])
def test_an_array_without_gaps_is_not_copied(layout: str):
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    assert np.shares_memory(np.asarray(view_array(LAYOUTS[layout](array), "data").payload), array)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any basic-sliced, transposed, broadcast view of an array."""
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


@settings(deadline=None)
@given(arrays())
def test_any_view_of_an_array_survives_bit_for_bit(array: Array):
    assert_survives(array)


@st.composite
def strided_tensors(draw: st.DrawFn) -> TensorView:
    """Any strides over enough bytes, dims and strides of 0 and overlaps included."""
    axes = draw(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4))
    dims, strides = [dim for dim, _ in axes], [stride for _, stride in axes]
    span = 0 if 0 in dims else 1 + sum((dim - 1) * stride for dim, stride in axes)
    data_type = draw(st.sampled_from(WHOLE_TYPES))
    payload = memoryview(build_pattern(data_type, span).tobytes())
    return TensorView(data_type, tuple(dims), tuple(strides), payload)


@settings(deadline=None)
@given(strided_tensors())
def test_elements_are_gathered_as_numpy_makes_them_contiguous(tensor: TensorView):
    size = tensor.data_type.bits // 8
    strides = [stride * size for stride in tensor.strides or ()]
    items = np.frombuffer(tensor.payload or bytes(size), f"V{size}")
    assert gather(tensor) == np.ascontiguousarray(as_strided(items, tensor.dims, strides)).tobytes()


def test_dense_elements_are_not_copied():
    payload = memoryview(bytes(24))
    assert gather(TensorView(DataType.F32, (2, 3), None, payload)) is payload


@pytest.mark.parametrize("data_type", [DataType.U8, DataType.BF16, DataType.F64], ids=str)
@pytest.mark.parametrize("dims", [(1,), (1, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("stride", [2**60, MAX], ids=["2^60", "2^63 - 1"])
def test_a_stride_that_is_never_taken_may_have_any_length(data_type: DataType, dims: tuple[int, ...], stride: int):
    payload = memoryview(build_pattern(data_type, prod(dims)).tobytes())
    strides = [stride if dim == 1 else 1 for dim in dims]
    tensor = TensorView(data_type, dims, strides, payload)
    tensor.check_layout("data")
    assert gather(tensor) == payload
    assert build_array(tensor).tobytes() == payload


@pytest.mark.parametrize("dims", [(0, 2), (2, 0), (MAX, 0, MAX)], ids=str)
def test_an_empty_tensor_may_have_any_strides(dims: tuple[int, ...]):
    tensor = TensorView(DataType.F32, dims, (MAX,) * len(dims), memoryview(b""))
    tensor.check_layout("data")
    assert gather(tensor).nbytes == 0


@pytest.mark.parametrize("data_type", [DataType.F32, DataType.F4E2M1], ids=str)
def test_an_array_of_received_bytes_is_read_only(data_type: DataType):
    array = build_array(TensorView(data_type, (2,), None, memoryview(bytes(data_type.count_bytes(2)))))
    assert not array.flags.writeable


@pytest.mark.parametrize("offset", range(8))
def test_received_bytes_need_no_alignment(offset: int):
    raw = bytes(range(8 * 4 + offset))
    tensor = TensorView(DataType.F64, (2, 2), (1, 2), memoryview(raw)[offset:])
    assert gather(tensor) == b"".join(raw[offset + 8 * at : offset + 8 * at + 8] for at in (0, 2, 1, 3))


def test_an_empty_shape_that_numpy_cannot_hold_is_a_value_error():
    tensor = TensorView(DataType.F32, (0, MAX, MAX), None, memoryview(b""))
    assert gather(tensor).nbytes == 0
    with pytest.raises(ValueError, match=r"Maximum allowed|too big"):
        build_array(tensor)


UNSUPPORTED = {
    "complex64": np.dtype("c8"),
    "complex128": np.dtype("c16"),
    "longdouble": np.dtype(np.longdouble),
    "object": np.dtype("O"),
    "bytes": np.dtype("S4"),
    "str": np.dtype("U4"),
    "void": np.dtype("V4"),
    "structured": np.dtype([("a", "<f4")]),
    "subarray of a structure": np.dtype([("a", "<f4", (2,))]),
    "datetime": np.dtype("M8[s]"),
    "timedelta": np.dtype("m8[s]"),
    "variable string": np.dtypes.StringDType(),
    **{
        name: np.dtype(getattr(ml_dtypes, name))
        for name in (
            "int2", "float6_e2m3fn", "float6_e3m2fn",
            "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("dtype", UNSUPPORTED.values(), ids=UNSUPPORTED.keys())
def test_other_types_are_refused(dtype: np.dtype[np.generic]):
    with pytest.raises(InvalidRequestError) as caught:
        view_array(np.zeros(2, dtype), "data")
    assert (caught.value.reason, caught.value.field) == (Reason.DATA_TYPE_UNSUPPORTED, "data.data_type")


@pytest.mark.parametrize(
    ("spelled", "data_type"),
    [
        ("int", DataType.I64), ("float", DataType.F64), ("bool", DataType.BOOLEAN), ("longlong", DataType.I64),
        ("ulonglong", DataType.U64), ("intc", DataType.I32), ("intp", DataType.I64), ("half", DataType.F16),
        (">u2", DataType.U16), ("=f4", DataType.F32),
    ],
)  # fmt: skip
def test_a_type_is_known_by_all_its_names(spelled: str, data_type: DataType):
    assert find_data_type(np.dtype(spelled), "data") is data_type


def test_a_type_may_carry_metadata():
    assert find_data_type(np.dtype("<f4", metadata={"unit": "m"}), "data") is DataType.F32
