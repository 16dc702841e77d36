"""Converts the arrays of any framework to numpy, and converts outputs to the framework that `like` names.

Invariants:

- This module imports no framework. An array is recognized by its class, whose module the caller has already imported.
- The conversion keeps every bit pattern of the elements. If numpy lacks the element type, as for bf16 and the 8-bit
  floats of ml_dtypes, the elements are viewed as integers of the same size.
- If an array is in this process's memory and numpy can address its elements, the elements are not copied. Python lists
  are copied. PyArrow's booleans are also copied, because eight booleans share a byte.
- The conversion changes nothing silently: it does not drop gradients, turn nulls into NaN, or move data from a device.
- Before the call is made, the element type of the data is checked. The framework of the output must have an element
  type that represents every element exactly.
- Read-only memory is never passed to a framework that could write to it. For example, torch has no read-only tensors.
- Memory that the caller can still write to is never passed to a framework whose arrays are immutable.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import index
from pickle import PickleBuffer
from types import ModuleType
from typing import Any, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

# `MaskedArray` is imported here, because numpy would otherwise import `np.ma` during the first call. If a signal
# handler (for Ctrl-C) raises an exception during an import, the import lock can stay locked. The first call of every
# other thread would then wait for the import lock forever.
from numpy.ma import MaskedArray

from tensor_reshape.client.arguments import DataTypeLike, read_data_type, read_integers
from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.dtypes import DataType
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

_ON_DEVICE = "on a device"

_TROUBLES: tuple[tuple[Callable[[_Tensor], bool], str, str], ...] = (
    (lambda tensor: tensor.is_nested, "that is nested", "the parts from tensor.unbind() one by one"),
    (lambda tensor: tensor.is_quantized, "that is quantized", "tensor.int_repr() or tensor.dequantize()"),
    (lambda tensor: tensor.is_meta, "that has no data", "a tensor with data"),
    (lambda tensor: str(tensor.layout) != "torch.strided", "that is not strided", "tensor.to_dense()"),
    (lambda tensor: tensor.requires_grad, "that requires grad, and a server returns no gradients", "tensor.detach()"),
    (lambda tensor: not tensor.is_cpu, _ON_DEVICE, 'tensor.cpu(), or view it there with transfer="view", like=torch'),
    # If the negative bit of a torch tensor is set, DLPack would export its values with the wrong sign.
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


def is_on_device(array: object) -> bool:
    """Whether an array is in memory that this process cannot read."""
    if is_torch_tensor(array):
        found = next((state for has_trouble, state, _ in _TROUBLES if has_trouble(array)), "")
        return found == _ON_DEVICE
    device = _find_device(array)
    return device is not None and device not in _HOST_MEMORY


def read_array(array: object, field: str) -> Array:
    """Returns a numpy array over the memory of `array`. Error messages call the array `field`.

    Raises:
        TypeError: the array is on a device, has gradients, nulls or a mask, or is a list of arrays. The error message
            suggests a replacement for the array.
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, if numpy cannot view the element type of a tensor.
    """
    if isinstance(array, MaskedArray):  # `np.asarray` would remove the mask without an error
        raise TypeError(f"{field} has masked elements, which cannot be sent: fill the array first")
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
        raise ValueError(f"{field} has rows of different lengths: reshape each row separately ({error})") from error


def _holds_arrays(items: Sequence[object]) -> bool:
    """Whether a list, or a list inside it, contains an array."""
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
            raise TypeError(f"{field} is a torch tensor {state} ({tensor.dtype}, {tensor.device}): pass {instead}")
    name = str(tensor.dtype).removeprefix("torch.")
    try:
        if name not in VIEWED_DTYPES:
            return np.asarray(tensor.numpy())
        integers = getattr(sys.modules["torch"], f"int{8 * tensor.itemsize}")
        return np.asarray(tensor.view(integers).numpy()).view(VIEWED_DTYPES[name])
    except TypeError:
        message = f"{field} is a tensor of {tensor.dtype}, which is not supported"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, f"{field}.data_type", dtype=name) from None
    # Some subclasses of tensors, and tensors inside a transform such as vmap, have no memory that DLPack could export.
    except RuntimeError as error:
        message = f"{field} is a torch tensor whose elements cannot be read ({type(tensor).__qualname__}): {error}"
        raise TypeError(message) from error


def _read_foreign(array: object, field: str) -> Array:
    """Reads an array of another library through a buffer, `__array_interface__`, `__array__` or DLPack."""
    _check_device(array, field)
    # A table of PyArrow, pandas or Polars is rejected, because numpy would convert all its columns to one type. The
    # attribute `columns` is looked up in the class, because an xarray object can have an axis with this name.
    if hasattr(type(array), "columns"):
        raise TypeError(f"{field} is a table: pass one of its columns")
    if _has_nulls(array):
        raise TypeError(f"{field} has nulls: fill them first, for example with array.fill_null(0) or array.fillna(0)")
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
    # Even if a PyArrow array of tensors has no null tensor, its tensors may have null elements.
    return hasattr(array, "to_numpy_ndarray") and array.storage.flatten().null_count != 0


def _find_device(array: object) -> int | None:
    """Returns DLPack's number for the type of the device that holds an array."""
    try:
        return int(array.__dlpack_device__()[0])  # type: ignore[attr-defined] # see the except clause
    except (AttributeError, BufferError):
        # DLPack reports no device if the array does not support DLPack, or if numpy must gather it from several
        # devices.
        return None


def _check_device(array: object, field: str) -> None:
    if is_on_device(array):
        kind = type(array)
        fetch = _FETCHES.get(kind.__module__.partition(".")[0], "a copy in the memory of this process")
        instead = f'{fetch}, or view it there with transfer="view" and like= its framework'
        raise TypeError(f"{field} is a {kind.__module__}.{kind.__qualname__} {_ON_DEVICE}: pass {instead}")


_WIDE_BYTES = 8
"""Size of the elements that jax narrows to half by default."""


Element = TypeVar("Element", bound=np.generic)
"""The element type of an array of numpy."""

LikeNumpy: TypeAlias = Array | None
"""If `like` has such a value and you do not pass `out`, the output is an array of numpy.

The elements of this array have the type of the data. If you pass `out`, the output is `out`, which may be a torch
tensor. Type checkers treat this tensor as an array of numpy, too.
"""

Like = TypeVar("Like")

Output: TypeAlias = Any
"""The output: an array of the framework of `like`. The overloads of each method give its type."""


@dataclass(frozen=True, slots=True)
class Framework:
    """Describes how a framework converts a numpy array to an array of its own.

    Attributes:
        name: the name of the framework for error messages.
        present: returns an array of the framework over the memory of a numpy array.
        takes_read_only: whether the memory of the numpy array may be read-only.
        is_immutable: whether arrays of the framework are immutable. If they are immutable, no other array may write to
            their memory.
    """

    name: str
    present: Callable[[Array], Output]
    takes_read_only: bool = True
    is_immutable: bool = False


NUMPY = Framework("numpy", lambda array: array)


def find_framework(like: object, data_type: DataType) -> Framework:
    """Returns the framework of an output, if the framework supports the element type.

    Args:
        like: an array or the namespace of the framework. The namespace is `torch`, `jax.numpy`, `numpy`, `pyarrow` or
            any module with `from_dlpack` of the array API standard. None means numpy.
        data_type: the element type.

    Raises:
        TypeError: `like` is neither an array nor a namespace, or the framework does not have the type.
    """
    if like is None:
        return NUMPY
    # `like` must not be a dtype, because an output keeps the element type of the data.
    if not _is_array(like) and not isinstance(like, ModuleType):
        raise _reject_like(type(like).__qualname__)
    modules = [like.__name__] if isinstance(like, ModuleType) else [kind.__module__ for kind in type(like).__mro__]
    for name in modules:
        find = _FRAMEWORKS.get(name.partition(".")[0])
        if find is not None:
            return find(data_type)
    return _find_namespace(like, data_type)


def _find_torch(data_type: DataType) -> Framework:
    torch = sys.modules["torch"]
    dtype = getattr(torch, data_type.numpy_name, None)
    if dtype is None or data_type.is_packed:  # torch has type names such as int4, but no operations for these types
        raise _reject(data_type, by="torch")
    if data_type.numpy_name not in VIEWED_DTYPES:
        return Framework("torch", torch.from_numpy, takes_read_only=False)
    integers = f"i{data_type.group_bytes}"
    return Framework("torch", lambda array: torch.from_numpy(array.view(integers)).view(dtype), takes_read_only=False)


def _find_jax(data_type: DataType) -> Framework:
    # `device_put` is used instead of jax's `asarray`, because `asarray` always copies.
    put = sys.modules["jax"].device_put
    # Without jax_enable_x64, jax silently narrows 64-bit elements to 32 bits. To find out whether jax_enable_x64 is on,
    # the code tries a conversion, because the setting can be changed in many scopes.
    if data_type.group_bytes == _WIDE_BYTES and put(np.empty(0, DTYPES[data_type])).dtype != DTYPES[data_type]:
        raise TypeError(f'jax narrows {data_type} by default: call jax.config.update("jax_enable_x64", True)')
    return Framework("jax", put, is_immutable=True)


def _find_pyarrow(data_type: DataType) -> Framework:
    if data_type in UNNAMED_IN_FILES or data_type is DataType.BOOLEAN:
        raise _reject(data_type, by="a pyarrow.Tensor")
    return Framework("pyarrow", sys.modules["pyarrow"].Tensor.from_numpy)


def _find_namespace(like: object, data_type: DataType) -> Framework:
    """Returns a framework that implements the array API standard but has no function of its own in this module."""
    namespace = like.__array_namespace__() if hasattr(like, "__array_namespace__") else like
    if not isinstance(namespace, ModuleType) or not hasattr(namespace, "from_dlpack"):
        raise _reject_like(type(like).__qualname__)
    if data_type in UNNAMED_IN_FILES:
        raise _reject(data_type, by=f"{namespace.__name__} (by DLPack from numpy)")
    # Read-only memory is not passed, because only DLPack 1.0 and newer marks memory as read-only, and consumers may
    # ignore the mark.
    return Framework(namespace.__name__, namespace.from_dlpack, takes_read_only=False)


_FRAMEWORKS: dict[str, Callable[[DataType], Framework]] = {
    "numpy": lambda _: NUMPY,
    "torch": _find_torch,
    "jax": _find_jax,
    "jaxlib": _find_jax,
    "pyarrow": _find_pyarrow,
}
"""The known frameworks by the root of their module names."""


def _is_array(like: object) -> bool:
    # a class, such as `numpy.ndarray`, has the attributes of its arrays, but is not accepted as an array
    is_class = isinstance(like, type)
    return not is_class and any(hasattr(like, name) for name in ("__array__", "__dlpack__", "__array_namespace__"))


def _reject_like(kind: str) -> TypeError:
    return TypeError(f"like must be an array, or a namespace such as torch or jax.numpy, not {kind}")


def _reject(data_type: DataType, *, by: str) -> TypeError:
    return TypeError(f"{by} has no type {data_type}: omit like= to get a numpy array")


_BUFFERS_PROTOCOL = 5  # this is the first pickle protocol with out-of-band buffers (PEP 574)
_Buffer = bytes | bytearray | memoryview | npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, init=False)
class PackedTensor:
    """A dense tensor of u1, u2, u3, u4, u6, i4, nf4 or f4e2m1.

    Attributes:
        data_type: the element type.
        dims: the shape.
        data: a read-only view of the bytes with the packed elements.

    >>> tensor = PackedTensor("u4", [2, 3], bytes(3))
    >>> client.reshape(tensor, [-1], special_zero=False).dims
    (6,)
    """

    data_type: DataType
    dims: tuple[int, ...]
    data: memoryview

    def __init__(self, data_type: DataTypeLike, dims: Sequence[int], data: _Buffer) -> None:
        """Creates a tensor from packed bytes. The data may be any contiguous buffer.

        Raises:
            ValueError: the element type is not a packed type, or a dim is negative or too large. If each element
                occupies whole bytes, use an array instead.
        """
        data_type = read_data_type(data_type)
        if not data_type.is_packed:
            raise ValueError(f"{data_type} is not a packed type: pass an array")
        view = memoryview(data)  # type: ignore[arg-type] # an array is a buffer
        object.__setattr__(self, "data_type", data_type)
        object.__setattr__(self, "dims", check_dims(read_integers(dims, "dims"), "dims"))
        # An empty view is replaced by empty bytes, because an empty memoryview cannot be cast.
        object.__setattr__(self, "data", view.cast("B").toreadonly() if view.nbytes else memoryview(b""))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Supports pickling. From pickle protocol 5 on, the bytes need not be copied."""
        data = PickleBuffer(self.data) if index(protocol) >= _BUFFERS_PROTOCOL else bytes(self.data)
        return type(self), (self.data_type, self.dims, data)
