"""Converts the message `Tensor` to a `TensorView` and back.

Reading or encoding a tensor never copies the payload. The payload of a received tensor is a view of the message, so it
keeps the message in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.layouts import check_layout
from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.fields import PAYLOAD_TAG, encode_varint

# A lookup in this mapping is several times as fast as `DataType(number)`, which also raises an error for unknown
# numbers.
_DATA_TYPES = {int(data_type): data_type for data_type in DataType}


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor with a view of its bytes.

    Attributes:
        data_type: the type of the elements.
        dims: the shape of the tensor.
        strides: the strides in elements. None means that the tensor is dense and in row-major order.
        payload: the elements, little-endian, as contiguous bytes.
    """

    data_type: DataType
    dims: Sequence[int]
    strides: Sequence[int] | None
    payload: memoryview

    def check_layout(self, field: str) -> Self:
        """Returns the tensor if its payload matches its layout.

        Otherwise, the method raises an error of `rules.layouts.check_layout`.
        """
        check_layout(self.data_type, self.dims, self.strides, self.payload.nbytes, field=field)
        return self


def build_tensor_header(tensor: TensorView) -> tensor_pb2.Tensor:
    """Returns the protobuf message for a tensor, without the bytes of the tensor."""
    return tensor_pb2.Tensor(data_type=encode_data_type(tensor.data_type), dims=tensor.dims, strides=tensor.strides)


def encode_tensor(tensor: TensorView) -> list[bytes | memoryview]:
    """Returns the encoded tensor message in parts. The last part is the payload buffer itself, not a copy."""
    # The payload is appended by hand, because the generated class would copy the payload twice.
    header = build_tensor_header(tensor).SerializeToString()
    return [header, PAYLOAD_TAG, encode_varint(tensor.payload.nbytes), tensor.payload]


def decode_tensor(message: tensor_pb2.Tensor, payload: memoryview, field: str) -> TensorView:
    """Returns the tensor of a message. The argument `payload` contains the bytes of the tensor.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED.
    """
    data_type = decode_data_type(message.data_type, f"{field}.data_type")
    # Protobuf encodes empty and absent strides in the same way, and both mean that the tensor is dense.
    return TensorView(data_type, tuple(message.dims), tuple(message.strides) or None, payload)


def encode_data_type(data_type: DataType) -> tensor_pb2.DataType.ValueType:
    """Returns the protobuf enum number of a data type."""
    return tensor_pb2.DataType.ValueType(data_type)


def decode_data_type(number: int, field: str) -> DataType:
    """Returns the data type that has this number in the protobuf enum.

    Raises:
        InvalidRequestError: the reason is DATA_TYPE_UNSUPPORTED if no data type has the number. The number 0 means an
            unspecified type.
    """
    data_type = _DATA_TYPES.get(number)
    if data_type is None:
        message = f"{field} is {number}, which is not a data type of this service"
        raise InvalidRequestError.of(Reason.DATA_TYPE_UNSUPPORTED, message, field, value=number)
    return data_type
