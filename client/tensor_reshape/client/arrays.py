"""Converts arrays of any framework to numpy, for data, requested shapes and `out`.

Invariants:

- This module imports no framework. A framework's array is recognized by its class, which is in a module that the caller
  has imported.
- The conversion keeps every bit pattern of the elements. numpy lacks some types of ml_dtypes, such as bf16 and the
  8-bit floats, so their elements are viewed as integers of the same size.
- If an array is in this process's memory and numpy can address its elements, the elements are not copied. PyArrow's
  booleans, which are packed into bytes, and Python lists are copied.
- The conversion changes nothing silently: it does not drop gradients, turn nulls into NaN, or move data from a device.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

# `MaskedArray` is imported here, because numpy would otherwise import `np.ma` during the first call. If a signal
# handler (for Ctrl-C) raises during an import, the import lock can stay locked. The first call of every other thread
# would then wait for the import lock forever.
from numpy.ma import MaskedArray

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array


class SupportsDLPack(Protocol):
    """An array that follows the array API standard, as the arrays of every framework with DLPack do."""

    def __dlpack__(self) -> object:
        """Exports the array."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the outermost axis of the array."""
        ...


_Tensor: TypeAlias = Any  # this type stands for torch tensors, and is Any because torch may not be installed

# This type stands for columns of PyArrow, pandas, Polars and similar libraries, but not for torch tensors.
_Column: TypeAlias = Any

AnyArray: TypeAlias = npt.ArrayLike | SupportsDLPack
"""An array of any framework, a buffer, a list of numbers, or a number."""

VIEWED_DTYPES = {DTYPES[data_type].name: DTYPES[data_type] for data_type in UNNAMED_IN_FILES if not data_type.is_packed}
"""Types that torch also has, but that torch can export to numpy only as integers."""

_HOST_MEMORY = {1, 3, 11, 13}
"""DLPack device types whose memory a CPU can read: CPU, pinned memory of CUDA and ROCm, and CUDA's managed memory."""

_FETCHES = {"jax": "jax.device_get(array)", "jaxlib": "jax.device_get(array)", "cupy": "array.get()"}
"""The code that brings an array of a framework into this process's memory, for error messages."""

_TROUBLES: tuple[tuple[Callable[[_Tensor], bool], str, str], ...] = (
    (lambda tensor: tensor.is_nested, "that is nested", "the parts from tensor.unbind() one by one"),
    (lambda tensor: tensor.is_quantized, "that is quantized", "tensor.int_repr() or tensor.dequantize()"),
    (lambda tensor: tensor.is_meta, "that has no data", "a tensor with data"),
    (lambda tensor: str(tensor.layout) != "torch.strided", "that is not strided", "tensor.to_dense()"),
    (lambda tensor: not tensor.is_cpu and tensor.requires_grad, "on a device", "tensor.detach().cpu()"),
    (lambda tensor: not tensor.is_cpu, "on a device", "tensor.cpu()"),
    (lambda tensor: tensor.requires_grad, "that requires grad, and a server returns no gradients", "tensor.detach()"),
    # For a tensor with the negative bit of torch, DLPack would export values with the wrong sign.
    (lambda tensor: tensor.is_neg(), "that is a negative view", "tensor.resolve_neg()"),
    (lambda tensor: tensor.is_conj(), "that is a conjugate view", "tensor.resolve_conj()"),
)
"""Checks for tensors whose memory cannot be used, each with a description and a replacement for the error."""


def is_array(value: object) -> bool:
    """Whether a value is an array with an element type, and not a sequence of numbers."""
    return isinstance(value, np.ndarray) or hasattr(type(value), "__dlpack__")


def is_torch_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    # The attribute `Tensor` is missing while another thread imports torch.
    return isinstance(value, getattr(torch, "Tensor", ()))


def read_array(array: object, field: str) -> Array:
    """Returns a numpy array over the memory of `array`. In error messages, the array is called `field`.

    Raises:
        TypeError: the array is on a device, has gradients, nulls or a mask, or is a list of arrays. The error message
            names a replacement.
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, if numpy cannot view the element type of a tensor.
    """
    if isinstance(array, MaskedArray):  # `np.asarray` would remove the mask without an error
        message = f"{field} has masked elements, which cannot be sent: fill the array first"
        raise TypeError(message)
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    if isinstance(array, bytes):
        return np.frombuffer(array, np.uint8)  # without `frombuffer`, numpy would treat bytes as text
    if isinstance(array, list | tuple):
        return _read_items(array, field)
    if is_torch_tensor(array):
        return _read_tensor(array, field)
    return _read_foreign(array, field)


def _read_items(items: list[object] | tuple[object, ...], field: str) -> Array:
    if _holds_arrays(items):  # numpy would convert a list of arrays into one array without an error
        message = f"{field} is a list of arrays: reshape each of them, or join them first, for example with numpy.stack"
        raise TypeError(message)
    try:
        return np.asarray(items)
    except ValueError as error:
        message = f"{field} has rows of different lengths: reshape each row separately ({error})"
        raise ValueError(message) from error


def _holds_arrays(items: Sequence[object]) -> bool:
    """Whether a list contains an array, also inside of nested lists."""
    # The types are collected in a set, because even a million items have few different types.
    kinds = set(map(type, items))
    if any(issubclass(kind, np.ndarray) or hasattr(kind, "__dlpack__") for kind in kinds):
        return True
    has_rows = any(issubclass(kind, list | tuple) for kind in kinds)
    return has_rows and any(_holds_arrays(row) for row in items if isinstance(row, list | tuple))


def _read_tensor(tensor: _Tensor, field: str) -> Array:
    """Returns a numpy array over the memory of a torch tensor, with the tensor's strides."""
    for has_trouble, state, instead in _TROUBLES:
        if has_trouble(tensor):
            message = f"{field} is a torch tensor {state} ({tensor.dtype}, {tensor.device}): pass {instead}"
            raise TypeError(message)
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        if name not in VIEWED_DTYPES:
            return np.asarray(tensor.numpy())
        integers = getattr(sys.modules["torch"], f"int{8 * tensor.itemsize}")
        return np.asarray(tensor.view(integers).numpy()).view(VIEWED_DTYPES[name])
    except TypeError:
        message = f"{field} is a tensor of {tensor.dtype}, which is not supported"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, f"{field}.data_type", dtype=name) from None
    # Tensors of a subclass or of a transform such as vmap have no memory that DLPack could export.
    except RuntimeError as error:
        message = f"{field} is a torch tensor whose elements cannot be read ({type(tensor).__qualname__}): {error}"
        raise TypeError(message) from error


def _read_foreign(array: object, field: str) -> Array:
    """Reads other arrays through a buffer, `__array_interface__`, `__array__` or DLPack."""
    _check_device(array, field)
    # A table of PyArrow, pandas or Polars is rejected, because numpy would convert all its columns to one type. The
    # attribute is looked up in the class, because an xarray object has its axis names as attributes.
    if hasattr(type(array), "columns"):
        message = f"{field} is a table: pass one of its columns"
        raise TypeError(message)
    if _has_nulls(array):
        message = f"{field} has nulls: fill them first, for example with array.fill_null(0) or array.fillna(0)"
        raise TypeError(message)
    # An object with the method `to_numpy_ndarray` is a PyArrow array of tensors, whose items numpy would read as Python
    # objects.
    if hasattr(array, "to_numpy_ndarray"):
        return np.asarray(array.to_numpy_ndarray())
    read = np.asanyarray(array)
    if read.dtype == object and hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return np.asarray(np.from_dlpack(array))
    return read_array(read, field)  # the array that `__array__` returns may have a mask, so it is checked as well


def _has_nulls(array: _Column) -> bool:
    """Whether a column has missing elements. A NaN does not count as missing."""
    if hasattr(type(array), "isna") and not isinstance(getattr(array, "dtype", None), np.dtype):
        return bool(array.isna().any())  # the extension types of pandas have nulls, but numpy types have only NaNs
    count = getattr(array, "null_count", 0)  # `null_count` is an attribute in PyArrow but a method in Polars
    if (count() if callable(count) else count) != 0:
        return True
    # If a PyArrow array of tensors has no null tensor, the tensors may still have null elements.
    return hasattr(array, "to_numpy_ndarray") and array.storage.flatten().null_count != 0


def _check_device(array: object, field: str) -> None:
    try:
        device = array.__dlpack_device__()  # type: ignore[attr-defined] # see the except clause
    except (AttributeError, BufferError):
        # If DLPack reports no device, the array does not support DLPack, or numpy gathers it from several devices.
        return
    if int(device[0]) not in _HOST_MEMORY:
        kind = type(array)
        fetch = _FETCHES.get(kind.__module__.partition(".")[0], "a copy in the memory of this process")
        message = f"{field} is a {kind.__module__}.{kind.__qualname__} on a device: pass {fetch}"
        raise TypeError(message)
