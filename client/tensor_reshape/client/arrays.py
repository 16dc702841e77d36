"""Arrays of every framework as numpy sees them: what a caller passes as data, as a target, or as `out`.

Laws:

- No framework is imported here: what is of one is known by a class of a module that the caller has imported.
- Every bit pattern survives. The types that numpy lacks and ml_dtypes has (bf16, the 8-bit floats) are looked at as
  integers of their size on the way, whose bits nobody reads.
- What lies in this process's memory, as elements that numpy can address, is not copied. PyArrow's booleans, which
  share bytes, and Python's lists are.
- Nothing is made of an array in silence that is not the array: no gradient is cut off, no null becomes a NaN, no bytes
  leave a device.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

# Here, not as `np.ma`, which numpy imports when it is first asked for: an exception of a signal handler (Ctrl-C) in the
# midst of an import can leave the import's lock held, and every other thread's first call would wait for it for ever.
from numpy.ma import MaskedArray

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array


class SupportsDLPack(Protocol):
    """An array by the array API standard: that of any framework which exports DLPack."""

    def __dlpack__(self) -> object:
        """Exports the array."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Goes over its outermost axis."""
        ...


_Tensor: TypeAlias = Any  # of torch, which need not be installed

_Column: TypeAlias = Any  # of PyArrow, pandas or Polars, or whatever else is no tensor of torch

AnyArray: TypeAlias = npt.ArrayLike | SupportsDLPack
"""What is taken as an array: of any framework, a buffer, a list of numbers, or a number."""

VIEWED_DTYPES = {DTYPES[data_type].name: DTYPES[data_type] for data_type in UNNAMED_IN_FILES if not data_type.is_packed}
"""What torch has by these names, and hands over to numpy as integers alone."""

_HOST_MEMORY = {1, 3, 11, 13}
"""DLPack's types of devices that a CPU reads: its own, pinned memory of CUDA and ROCm, and CUDA's managed memory."""

_FETCHES = {"jax": "jax.device_get(array)", "jaxlib": "jax.device_get(array)", "cupy": "array.get()"}
"""What a framework's user writes to have an array in this process's memory."""

_TROUBLES: tuple[tuple[Callable[[_Tensor], bool], str, str], ...] = (
    (lambda tensor: tensor.is_nested, "that is nested", "its parts one by one, of tensor.unbind()"),
    (lambda tensor: tensor.is_quantized, "that is quantized", "tensor.int_repr() or tensor.dequantize()"),
    (lambda tensor: tensor.is_meta, "that has no data", "one that has"),
    (lambda tensor: str(tensor.layout) != "torch.strided", "that is not strided", "tensor.to_dense()"),
    (lambda tensor: not tensor.is_cpu and tensor.requires_grad, "on a device", "tensor.detach().cpu()"),
    (lambda tensor: not tensor.is_cpu, "on a device", "tensor.cpu()"),
    (lambda tensor: tensor.requires_grad, "that requires grad, which no server gives back", "tensor.detach()"),
    # What torch exports of these by DLPack has the opposite sign.
    (lambda tensor: tensor.is_neg(), "that is a negative view", "tensor.resolve_neg()"),
    (lambda tensor: tensor.is_conj(), "that is a conjugate view", "tensor.resolve_conj()"),
)
"""Why a tensor's memory does not hold its elements, or must not be taken for them, and what to pass instead."""


def is_array(value: object) -> bool:
    """Whether a value is an array of a framework, with a type of its own, rather than a sequence of numbers."""
    return isinstance(value, np.ndarray) or hasattr(type(value), "__dlpack__")


def is_torch_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch, which nobody has who has not imported it."""
    torch = sys.modules.get("torch")
    return isinstance(value, getattr(torch, "Tensor", ()))  # it has none while another thread still imports it


def read_array(array: object, field: str) -> Array:
    """Returns an array over the memory of `array`, whatever it is of. `field` is what it is passed as.

    Raises:
        TypeError: it is on a device, has gradients, nulls or a mask, or is a list of arrays; the message says what to
            pass instead.
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, of a tensor whose type numpy cannot even look at.
    """
    if isinstance(array, MaskedArray):  # asarray would drop the mask without a word
        message = "a masked array has elements that no tensor has: fill it first"
        raise TypeError(message)
    if isinstance(array, np.ndarray | np.generic):
        return np.asarray(array)
    if isinstance(array, bytes):
        return np.frombuffer(array, np.uint8)  # numpy would take it for a text
    if isinstance(array, list | tuple):
        return _read_items(array, field)
    if is_torch_tensor(array):
        return _read_tensor(array, field)
    return _read_foreign(array, field)


def _read_items(items: list[object] | tuple[object, ...], field: str) -> Array:
    if _holds_arrays(items):  # numpy would stack them, without a word
        message = f"{field} is a list of arrays: reshape each of them, or join them first, as by numpy.stack"
        raise TypeError(message)
    try:
        return np.asarray(items)
    except ValueError as error:
        message = f"{field} has rows of different lengths, which no tensor has: reshape each by itself ({error})"
        raise ValueError(message) from error


def _holds_arrays(items: Sequence[object]) -> bool:
    """Whether an array is among the items of a list, or among those of the lists in it."""
    kinds = set(map(type, items))  # of a million numbers there are few
    if any(issubclass(kind, np.ndarray) or hasattr(kind, "__dlpack__") for kind in kinds):
        return True
    has_rows = any(issubclass(kind, list | tuple) for kind in kinds)
    return has_rows and any(_holds_arrays(row) for row in items if isinstance(row, list | tuple))


def _read_tensor(tensor: _Tensor, field: str) -> Array:
    """Reads a tensor of torch, over its own memory and with its strides."""
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
        message = f"{field} is a tensor of {tensor.dtype}, which is not served"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, f"{field}.data_type", dtype=name) from None
    except RuntimeError as error:  # of a subclass, or of a transform such as vmap: it has no memory of its own
        message = f"{field} is a torch tensor whose elements cannot be read, a {type(tensor).__qualname__}: {error}"
        raise TypeError(message) from error


def _read_foreign(array: object, field: str) -> Array:
    """Reads what is neither of numpy nor of torch: by a buffer, `__array_interface__`, `__array__`, or DLPack."""
    _check_device(array, field)
    # Of PyArrow, pandas or Polars: numpy would look for a type that all columns fit into. Not of the value itself, for
    # one of xarray has the names of its axes as attributes.
    if hasattr(type(array), "columns"):
        message = f"{field} is a table: pass one of its columns"
        raise TypeError(message)
    if _has_nulls(array):
        message = (
            f"{field} has nulls, which no tensor has: fill them first, as array.fill_null(0) or array.fillna(0) do"
        )
        raise TypeError(message)
    if hasattr(array, "to_numpy_ndarray"):  # tensors of one shape in PyArrow, objects to numpy
        return np.asarray(array.to_numpy_ndarray())
    read = np.asanyarray(array)
    if read.dtype == object and hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        return np.asarray(np.from_dlpack(array))
    return read_array(read, field)  # what `__array__` gave may have a mask


def _has_nulls(array: _Column) -> bool:
    """Whether a column has elements that are none; a NaN is one."""
    if hasattr(type(array), "isna") and not isinstance(getattr(array, "dtype", None), np.dtype):
        return bool(array.isna().any())  # of a type of pandas' own: in one of numpy's there are only NaNs
    count = getattr(array, "null_count", 0)  # of Polars it is a method
    if (count() if callable(count) else count) != 0:
        return True
    # Tensors in PyArrow: they are all there, and may have nulls in them.
    return hasattr(array, "to_numpy_ndarray") and array.storage.flatten().null_count != 0


def _check_device(array: object, field: str) -> None:
    try:
        device = array.__dlpack_device__()  # type: ignore[attr-defined] # as the next line says
    except (AttributeError, BufferError):  # it knows no DLPack; or it is on several devices, and numpy collects it
        return
    if int(device[0]) not in _HOST_MEMORY:
        kind = type(array)
        fetch = _FETCHES.get(kind.__module__.partition(".")[0], "a copy in the memory of this process")
        message = f"{field} is a {kind.__module__}.{kind.__qualname__} on a device: pass {fetch}"
        raise TypeError(message)
