"""Tensors whose elements have less than one byte, as packed bytes.

Use these tensors for types that no array library has, or to avoid unpacking.

`docs/concepts/element-types.md` describes the layout of the bytes. A reshape does not change the bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from pickle import PickleBuffer
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from tensor_reshape.client.arguments import DataTypeLike, read_data_type, read_integers
from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.dtypes import DataType

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
            ValueError: the elements of this type have whole bytes, or a dim is negative or too large. Use an array for
                elements of whole bytes.
        """
        data_type = read_data_type(data_type)
        if not data_type.is_packed:
            message = f"{data_type} is not a packed type: pass an array"
            raise ValueError(message)
        view = memoryview(data)  # type: ignore[arg-type] # an array is a buffer
        object.__setattr__(self, "data_type", data_type)
        object.__setattr__(self, "dims", check_dims(read_integers(dims, "dims"), "dims"))
        # An empty view is replaced by empty bytes, because an empty memoryview cannot be cast.
        object.__setattr__(self, "data", view.cast("B").toreadonly() if view.nbytes else memoryview(b""))

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[object, ...]:
        """Supports pickling. From pickle protocol 5 on, the bytes need not be copied."""
        data = PickleBuffer(self.data) if index(protocol) >= _BUFFERS_PROTOCOL else bytes(self.data)
        return type(self), (self.data_type, self.dims, data)
