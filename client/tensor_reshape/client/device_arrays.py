"""Views of arrays on a device, which their own framework makes. No element moves to this process."""

from typing import Any, NamedTuple, Self

import numpy as np

from tensor_reshape.client.arrays import VIEWED_DTYPES, Output, find_framework, is_on_device, is_torch_tensor
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.wire.arrays import Array, find_data_type


class DeviceArray(NamedTuple):
    """An array on a device.

    Attributes:
        array: the array of the caller.
        stand_in: an array of numpy with the same type and shape, and one element in memory.
    """

    array: Any
    stand_in: Array

    @classmethod
    def find(cls, array: object, like: object) -> Self | None:
        """Returns the array if it is on a device, and `like` names its own framework. Otherwise, returns None."""
        if like is None or not is_on_device(array):
            return None
        name = str(array.dtype).rpartition(".")[2]  # type: ignore[attr-defined] # torch writes torch.float32
        try:
            dtype = VIEWED_DTYPES.get(name) or np.dtype(name)
        except TypeError:
            message = f"data is an array of {name}, which is not supported"
            raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, "data.data_type", dtype=name) from None
        data_type = find_data_type(dtype, "data")
        if find_framework(like, data_type).name != find_framework(array, data_type).name:
            return None
        return cls(array, np.broadcast_to(np.empty((), dtype), tuple(array.shape)))  # type: ignore[attr-defined]

    def view(self, dims: tuple[int, ...], *, copies: bool) -> Output:
        """Returns the array with another shape. If its strides do not allow a view, its framework copies it.

        Raises:
            InvalidRequestError: VIEW_IMPOSSIBLE, if a copy would be needed and `copies` is False.
        """
        if copies:
            return self.array.reshape(dims)
        try:
            if is_torch_tensor(self.array):
                return self.array.view(dims)
            return self.array.__array_namespace__().reshape(self.array, dims, copy=False)
        except (RuntimeError, ValueError):
            message = f'the strides of the array do not allow a view of shape {list(dims)}: pass copy="if_needed"'
            raise InvalidRequestError.of(Reason.VIEW_IMPOSSIBLE, message, "data.strides") from None
