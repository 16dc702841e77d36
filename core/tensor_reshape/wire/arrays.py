"""Converts tensors to numpy arrays and back.

The conversions preserve every bit pattern. Elements are copied only if the protobuf API cannot describe their layout in
memory. If a type is packed, a message has several elements in a byte, but an array of ml_dtypes has only one. The
elements of these types are therefore packed and unpacked.

- All packed types of ml_dtypes have 2 or 4 elements in a byte, with the first element in the lowest bits. No element is
  split between two bytes, so any chunk of a tensor can be packed or unpacked separately. The other packed types of
  OpenVINO have no numpy type and are never unpacked.
- Spare bits of the last byte are written as 0 and ignored by readers.
- The elements of one packed byte are processed together, as one integer. Arrays are processed in blocks, so the
  additional memory does not depend on the size of the array.
"""

from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensor_reshape.rules.dtypes import DataType, ElementKind
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.tensors import TensorView

Bytes = npt.NDArray[np.uint8]

_BLOCK_BYTES = 65536
"""The number of packed bytes in a block. The words of one block fit into the processor's cache."""


def pack(data_type: DataType, elements: Bytes) -> Bytes:
    """Returns the packed bytes of the array `elements`, which has one element per byte.

    If the type is not packed, the bytes of the array are returned unchanged.
    """
    if not data_type.is_packed:
        return elements
    packed = np.empty(data_type.count_bytes(elements.size), np.uint8)
    for begin, chosen in _cut(data_type, elements, packed.size):
        # the last byte has space for this many further elements, which are not part of the tensor
        missing = -chosen.size % data_type.group_items
        whole = np.append(chosen, np.zeros(missing, np.uint8)) if missing else chosen
        # The mask removes the sign bits that ml_dtypes adds.
        words = whole.view(_find_word(data_type)) & _mask_word(data_type)
        for shift in _list_shifts(data_type):
            words |= words >> shift
        packed[begin : begin + _BLOCK_BYTES] = words.astype(np.uint8)  # only the lowest byte of each word is kept
    return packed


def unpack(data_type: DataType, packed: Bytes, elements: Bytes) -> None:
    """Unpacks elements from `packed` into `elements`, until `elements` is full.

    If the type is not packed, the bytes are copied unchanged.
    """
    if not data_type.is_packed:
        elements[:] = packed
        return
    for begin, chosen in _cut(data_type, elements, packed.size):
        words = packed[begin : begin + _BLOCK_BYTES].astype(_find_word(data_type))
        for shift in _list_shifts(data_type):
            words |= words << shift
        words &= _mask_word(data_type)
        found = words.view(np.uint8)
        if data_type.kind is ElementKind.SIGNED:
            # The sign bit is extended to the whole byte: with 4 bits, 0b1110 becomes 0b11111110.
            sign = np.uint8(1 << (data_type.bits - 1))
            found ^= sign
            found -= sign
        chosen[:] = found[: chosen.size]


def _cut(data_type: DataType, elements: Bytes, packed_bytes: int) -> Iterator[tuple[int, Bytes]]:
    """Yields the position of each block in the packed bytes, and the elements of the block."""
    for begin in range(0, packed_bytes, _BLOCK_BYTES):
        yield begin, elements[begin * data_type.group_items : (begin + _BLOCK_BYTES) * data_type.group_items]


def _find_word(data_type: DataType) -> np.dtype[np.unsignedinteger]:
    # The first packed element must be in the lowest byte of its word, even on big-endian machines.
    return np.dtype(f"<u{data_type.group_items}")


def _mask_word(data_type: DataType) -> int:
    """Returns a word with a 1 in each bit that belongs to an element."""
    return int.from_bytes(bytes([(1 << data_type.bits) - 1]) * data_type.group_items)


def _list_shifts(data_type: DataType) -> list[int]:
    """Returns the one or two shifts that pack or unpack the elements of a word.

    The distance between neighbouring elements is `bits` in a packed byte and 8 bits in a word. To pack or unpack a
    word, the element at index i therefore moves by i steps of `8 - bits` bits. A shift by one step and a shift by two
    steps together move an element by three steps. All bits of the word that do not belong to elements are 0, so the
    shifted copies do not overlap.
    """
    return [places * (8 - data_type.bits) for places in (1, 2)[: data_type.group_items // 2]]


Array = npt.NDArray[np.generic]

DTYPES: dict[DataType, np.dtype[np.generic]] = {
    # A type name is unambiguous, because numpy and ml_dtypes have no type names in common.
    data_type: np.dtype(getattr(ml_dtypes, data_type.numpy_name, data_type.numpy_name)).newbyteorder("<")
    for data_type in DataType
    if data_type.numpy_name
}
"""The numpy type of each data type that numpy or ml_dtypes supports. The types are little-endian, like messages."""

UNNAMED_IN_FILES = tuple(data_type for data_type in DTYPES if hasattr(ml_dtypes, data_type.numpy_name))
"""The data types that a `.npy` file stores as raw bytes, because the file format has names for numpy's own types only.
"""

_DATA_TYPES = {dtype: data_type for data_type, dtype in DTYPES.items()}


def find_data_type(dtype: np.dtype[np.generic], field: str) -> DataType:
    """Returns the data type of a numpy type, which may have any byte order.

    In error messages, the array is called `field`.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED.
    """
    # Numpy types of a single byte have the byte order "|" and need no conversion.
    data_type = _DATA_TYPES.get(dtype if dtype.byteorder == "|" else dtype.newbyteorder("<"))
    if data_type is None:
        message = f"{field} is an array of numpy type {dtype}, which is not supported"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, f"{field}.data_type", dtype=dtype)
    return data_type


def view_array(array: Array, field: str) -> TensorView:
    """Returns an array as a tensor. The elements are copied if their layout in memory has gaps or negative strides.

    A transposed or broadcast array keeps its layout. Repeated elements of a broadcast array are sent once, so the
    message is never larger than the message of a dense tensor. An array of a packed type becomes dense, because tensors
    of packed types cannot have strides.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED.
    """
    data_type = find_data_type(array.dtype, field)
    array = array.astype(DTYPES[data_type], copy=False)  # `astype` copies the array only if it is big-endian
    if data_type.is_packed:
        packed = pack(data_type, view_bytes(np.ascontiguousarray(array)))
        return TensorView(data_type, array.shape, None, packed.data)
    flat, strides = _flatten_layout(array)
    return TensorView(data_type, array.shape, strides, view_bytes(flat).data)


def build_array(tensor: TensorView) -> Array:
    """Returns a read-only array: a view of the tensor's bytes, or a new array for a packed type.

    Check the layout of the tensor before you call this function.

    Raises:
        ValueError: numpy cannot represent the shape, because one dim is 0 and other dims are huge.
        KeyError: neither numpy nor ml_dtypes has the type.
    """
    dtype = DTYPES[tensor.data_type]
    if tensor.data_type.is_packed:
        array = np.empty(tensor.dims, dtype)
        unpack(tensor.data_type, np.frombuffer(tensor.payload, np.uint8), view_bytes(array))
        array.flags.writeable = False  # all returned arrays are read-only
        return array
    # `np.frombuffer` accepts neither strides nor empty buffers. The array is read-only, because the bytes of the
    # message are read-only.
    return np.ndarray(tensor.dims, dtype, buffer=tensor.payload, strides=_compute_byte_strides(tensor))


def gather(tensor: TensorView) -> memoryview:
    """Returns the elements of a tensor as dense row-major bytes.

    Check the layout of the tensor before you call this function.

    The elements are copied as integers of the same size, which preserves NaN payloads and booleans other than 0 and 1.
    """
    strides = _compute_byte_strides(tensor)
    if strides is None:
        return tensor.payload
    elements = np.ndarray(tensor.dims, f"u{tensor.data_type.group_bytes}", buffer=tensor.payload, strides=strides)
    return view_bytes(np.ascontiguousarray(elements)).data


def view_bytes(array: Array) -> Bytes:
    """Returns a view of the bytes of a row-major array."""
    # The array is viewed as bytes, because numpy cannot create a memoryview of an array with a type of ml_dtypes.
    return array.ravel().view(np.uint8)


def _compute_byte_strides(tensor: TensorView) -> list[int] | None:
    """Returns the strides of a tensor in bytes; None if the tensor is dense.

    The stride of a dim of 1 becomes 0, because this stride has no effect, but may be too large for numpy.
    """
    if tensor.strides is None or 0 in tensor.dims:
        return None
    axes = zip(tensor.dims, tensor.strides, strict=True)
    return [0 if dim == 1 else stride * tensor.data_type.group_bytes for dim, stride in axes]


def _flatten_layout(array: Array) -> tuple[Array, Sequence[int] | None]:
    """Returns the elements in their order in memory, and their strides.

    If the strides are None, the elements are in row-major order.
    """
    if not array.flags.c_contiguous:
        # If a stride of 0 repeats an element in memory, the element is sent only once, with a stride of 0.
        unique = array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]
        # The axes are sorted from the longest stride to the shortest. In an array without gaps, this is the order of
        # the axes in memory. An array with a negative stride is never contiguous in this order, so it is copied into
        # dense memory. The protobuf messages cannot represent negative strides.
        order = sorted(range(array.ndim), key=lambda axis: -abs(unique.strides[axis]))
        in_memory = unique.transpose(order)
        if in_memory.flags.c_contiguous:
            axes = zip(unique.shape, array.strides, strict=True)
            return in_memory.ravel(), [0 if dim == 1 else stride // array.itemsize for dim, stride in axes]
    return np.ascontiguousarray(array).ravel(), None
