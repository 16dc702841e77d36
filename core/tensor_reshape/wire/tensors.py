"""Conversion between the message `Tensor` and `TensorView`.

A payload is never copied. It is a view of the received message and keeps that message alive.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.layouts import check_layout
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.fields import PAYLOAD_TAG, encode_varint

# `DataType(number)` is several times slower and raises for unknown numbers.
_DATA_TYPES = {int(data_type): data_type for data_type in DataType}


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor with a view of its bytes.

    Attributes:
        data_type: of the elements.
        dims: the shape.
        strides: in elements; None for dense row-major.
        payload: the elements, little-endian, as contiguous bytes.
    """

    data_type: DataType
    dims: Sequence[int]
    strides: Sequence[int] | None
    payload: memoryview

    def check_layout(self, field: str) -> Self:
        """Returns the tensor if its payload matches its layout; `rules.layouts.check_layout` lists the errors."""
        check_layout(self.data_type, self.dims, self.strides, self.payload.nbytes, field=field)
        return self


def build_tensor_header(tensor: TensorView) -> tensor_pb2.Tensor:
    """Returns the message without the tensor's bytes."""
    return tensor_pb2.Tensor(data_type=encode_data_type(tensor.data_type), dims=tensor.dims, strides=tensor.strides)


def encode_tensor(tensor: TensorView) -> list[bytes | memoryview]:
    """Returns the parts of the message. The last part is the payload, not copied."""
    # The generated class would copy the payload twice.
    header = build_tensor_header(tensor).SerializeToString()
    return [header, PAYLOAD_TAG, encode_varint(tensor.payload.nbytes), tensor.payload]


def decode_tensor(message: tensor_pb2.Tensor, payload: memoryview, field: str) -> TensorView:
    """Returns the tensor of a message whose bytes are `payload`.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED.
    """
    data_type = decode_data_type(message.data_type, f"{field}.data_type")
    # Empty and absent strides have the same encoding. Both mean dense.
    return TensorView(data_type, tuple(message.dims), tuple(message.strides) or None, payload)


def encode_data_type(data_type: DataType) -> tensor_pb2.DataType.ValueType:
    """Returns the protobuf number of a data type."""
    return tensor_pb2.DataType.ValueType(data_type)


def decode_data_type(number: int, field: str) -> DataType:
    """Returns the data type with that number.

    Raises:
        InvalidRequestError: DATA_TYPE_UNSUPPORTED, also for 0.
    """
    data_type = _DATA_TYPES.get(number)
    if data_type is None:
        message = f"{field} is {number}, which is not a data type of this service"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=number)
    return data_type
