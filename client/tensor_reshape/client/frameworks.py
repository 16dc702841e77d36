"""Finds the framework of an output from the argument `like`.

Invariants:

- This module imports no framework. The argument `like` is an array or a module of a framework that the caller has
  imported.
- Before the call is made, the element type of the data is checked. The framework must have an element type that
  represents every element exactly.
- Read-only memory is never passed to a framework that could write to it. For example, torch has no read-only tensors.
- Memory that the caller can still write to is never passed to a framework whose arrays are immutable.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from tensor_reshape.client.arrays import VIEWED_DTYPES
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array

_WIDE_BYTES = 8
"""Size of the elements that jax narrows to half by default."""


Output: TypeAlias = Any
"""The output: an array of the framework of `like`. The overloads of each method give its type."""


@dataclass(frozen=True, slots=True)
class Framework:
    """The way in which a framework takes over a numpy array.

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
        like: None for numpy, an array, or a namespace: `torch`, `jax.numpy`, `numpy`, `pyarrow`, or any module with
            `from_dlpack` of the array API standard.
        data_type: the element type.

    Raises:
        TypeError: `like` is neither an array nor a namespace, or the framework does not have the type.
    """
    if like is None:
        return NUMPY
    # `like` must not be a dtype, because outputs are not converted.
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
        message = f'jax narrows {data_type} by default: call jax.config.update("jax_enable_x64", True)'
        raise TypeError(message)
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
    # a class is not accepted as an array, although it has the attributes of its arrays
    is_class = isinstance(like, type)
    return not is_class and any(hasattr(like, name) for name in ("__array__", "__dlpack__", "__array_namespace__"))


def _reject_like(kind: str) -> TypeError:
    return TypeError(f"like must be an array, or a namespace such as torch or jax.numpy, not {kind}")


def _reject(data_type: DataType, *, by: str) -> TypeError:
    return TypeError(f"{by} has no type {data_type}: omit like= to get a numpy array")
