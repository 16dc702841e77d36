"""Reshapes arrays on a device, such as a GPU, with their own framework. No element moves to this process."""

from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np

from tensor_reshape.client.arrays import VIEWED_DTYPES, Output, is_on_device, is_torch_tensor
from tensor_reshape.client.requests import reject_view
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import Array


class DeviceArray(NamedTuple):
    """An array in the memory of a device, such as a GPU.

    Attributes:
        array: the array of the caller.
        stand_in: a numpy array with the same type and shape, which occupies the memory of only one element.
    """

    array: Any
    stand_in: Array

    @classmethod
    def find(cls, array: Any, like: object) -> Self | None:  # noqa: ANN401 - an array of any framework
        """Returns the array if it is on a device and `like` names the framework of the array.

        Otherwise, returns None.
        """
        is_own = like is not None and _find_root(like) == _find_root(array)
        if not is_own or not hasattr(array, "dtype") or not is_on_device(array):
            return None
        name = str(array.dtype).rpartition(".")[2]  # the text of a torch type is, for example, torch.float32
        try:
            dtype = VIEWED_DTYPES.get(name) or np.dtype(name)
        except TypeError:
            message = f"data is an array of {name}, which is not supported"
            raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, "data.data_type", dtype=name) from None
        return cls(array, np.broadcast_to(np.empty((), dtype), tuple(array.shape)))

    def view(self, dims: tuple[int, ...], *, copies: bool) -> Output:
        """Returns the array with another shape.

        If the strides of the array do not allow a view, its framework copies the elements.

        Raises:
            InvalidRequestError: VIEW_IMPOSSIBLE, if a copy would be needed and `copies` is False.
            ValueError: `copies` is False, and this release of the framework cannot promise that it makes no copy.
        """
        array = self.array
        if is_torch_tensor(array):
            return array.reshape(dims) if copies else _view_tensor(array, dims)
        if not hasattr(array, "__array_namespace__"):
            if copies:
                return array.reshape(dims)
            raise _reject_promise(array)
        reshape = array.__array_namespace__().reshape
        if copies:
            return reshape(array, dims)
        try:
            return reshape(array, dims, copy=False)
        except ValueError:
            raise reject_view(dims, getattr(array, "strides", None)) from None
        except TypeError:  # this release of the framework does not have the keyword `copy`
            raise _reject_promise(array) from None


def _find_root(value: Any) -> str:  # noqa: ANN401 - an array or a module of any framework
    """Returns the name of the package of a framework."""
    if hasattr(value, "__array_namespace__"):
        value = value.__array_namespace__()
    return (value.__name__ if isinstance(value, ModuleType) else type(value).__module__).partition(".")[0]


def _view_tensor(tensor: Any, dims: tuple[int, ...]) -> Output:  # noqa: ANN401 - torch may not be installed
    try:
        return tensor.view(dims)
    except RuntimeError:
        raise reject_view(dims, tuple(tensor.itemsize * stride for stride in tensor.stride())) from None


def _reject_promise(array: object) -> ValueError:
    return ValueError(f'{_find_root(array)} cannot promise to make no copy, and copy is "never": pass copy="if_needed"')
