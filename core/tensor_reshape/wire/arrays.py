"""Tensors as numpy arrays, whose types follow from the table of `rules.dtypes`.

Laws: every bit pattern survives, whatever it means, and no element is copied that lies in memory as it may travel.
Packed types do not: their arrays have one element a byte, and are packed and unpacked by `packed_elements`.
"""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.packed_elements import Bytes, pack, unpack
from tensor_reshape.wire.tensors import TensorView

Array = npt.NDArray[np.generic]

DTYPES: dict[DataType, np.dtype[np.generic]] = {
    # ml_dtypes has none of numpy's own names, so whichever knows a name is meant.
    data_type: np.dtype(getattr(ml_dtypes, data_type.numpy_name, data_type.numpy_name)).newbyteorder("<")
    for data_type in DataType
    if data_type.numpy_name
}
"""The numpy type of each data type that has one, little-endian as on the wire."""

UNNAMED_IN_FILES = tuple(data_type for data_type in DTYPES if hasattr(ml_dtypes, data_type.numpy_name))
"""What a `.npy` file holds as bare bytes: its format knows numpy's own types alone."""

_DATA_TYPES = {dtype: data_type for data_type, dtype in DTYPES.items()}


def find_data_type(dtype: np.dtype[np.generic], field: str) -> DataType:
    """Returns the data type of a numpy type, whatever its byte order. `field` is what holds the array.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED.
    """
    # "|" is the order of what has none: a single byte.
    data_type = _DATA_TYPES.get(dtype if dtype.byteorder == "|" else dtype.newbyteorder("<"))
    if data_type is None:
        message = f"{field} is an array of numpy type {dtype}, which is not supported"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, f"{field}.data_type", dtype=dtype)
    return data_type


def view_array(array: Array, field: str) -> TensorView:
    """Returns the array as a tensor, with its own layout where that has no gaps; else its elements are gathered.

    A transposed or a broadcast array goes as it lies in memory, so what travels is never larger than the dense tensor.
    One of a packed type goes dense: such tensors have no strides.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED.
    """
    data_type = find_data_type(array.dtype, field)
    array = array.astype(DTYPES[data_type], copy=False)  # copies what is big-endian, and nothing else
    if data_type.is_packed:
        packed = pack(data_type, view_bytes(np.ascontiguousarray(array)))
        return TensorView(data_type, array.shape, None, packed.data)
    flat, strides = _flatten_layout(array)
    return TensorView(data_type, array.shape, strides, view_bytes(flat).data)


def build_array(tensor: TensorView) -> Array:
    """Returns a read-only array over the tensor's bytes, or of a packed type a new one. The layout must be checked.

    Raises:
        ValueError: numpy cannot hold the shape: it is empty and other dims are huge.
        KeyError: numpy has no such type.
    """
    dtype = DTYPES[tensor.data_type]
    if tensor.data_type.is_packed:
        array = np.empty(tensor.dims, dtype)
        unpack(tensor.data_type, np.frombuffer(tensor.payload, np.uint8), view_bytes(array))
        array.flags.writeable = False  # as all others are
        return array
    # Not `frombuffer`, which takes no strides, and no buffer without bytes. Read-only as the bytes are.
    return np.ndarray(tensor.dims, dtype, buffer=tensor.payload, strides=_compute_byte_strides(tensor))


def gather(tensor: TensorView) -> memoryview:
    """Returns the elements as dense row-major bytes. The layout must have been checked.

    Elements are moved as integers of their size: every bit pattern survives, NaN payloads and odd booleans included.
    """
    strides = _compute_byte_strides(tensor)
    if strides is None:
        return tensor.payload
    elements = np.ndarray(tensor.dims, f"u{tensor.data_type.group_bytes}", buffer=tensor.payload, strides=strides)
    return view_bytes(np.ascontiguousarray(elements)).data


def view_bytes(array: Array) -> Bytes:
    """Returns the bytes of a row-major array, not copied."""
    return array.reshape(-1).view(np.uint8)  # numpy gives no memoryview of a type that only ml_dtypes knows


def _compute_byte_strides(tensor: TensorView) -> list[int] | None:
    """Returns the strides for numpy, None for dense row-major; those that move nothing are 0, however large."""
    if tensor.strides is None or 0 in tensor.dims:
        return None
    axes = zip(tensor.dims, tensor.strides, strict=True)
    return [0 if dim == 1 else stride * tensor.data_type.group_bytes for dim, stride in axes]


def _flatten_layout(array: Array) -> tuple[Array, Sequence[int] | None]:
    """Returns the elements in the order of memory, and the strides that read them (None: row-major already)."""
    if not array.flags.c_contiguous:
        # What a stride of 0 repeats is taken once: it travels once, and is repeated by the same stride.
        broadcast = [dim > 1 and stride == 0 for dim, stride in zip(array.shape, array.strides, strict=True)]
        unique = array[tuple(slice(0, 1) if repeated else slice(None) for repeated in broadcast)]
        # The order of memory, if there is one without gaps: from the longest step to the shortest. An axis that runs
        # backwards fits into none, since the contract has no negative strides.
        order = sorted(range(array.ndim), key=lambda axis: -abs(unique.strides[axis]))
        in_memory = unique.transpose(order)
        if in_memory.flags.c_contiguous:
            axes = zip(unique.shape, array.strides, strict=True)
            return in_memory.reshape(-1), [0 if dim == 1 else stride // array.itemsize for dim, stride in axes]
    return np.ascontiguousarray(array).reshape(-1), None
