"""Requests and responses of the method that moves no data, encoded and decoded."""

from collections.abc import Sequence

from tensor_reshape.core.errors import InvalidRequestError, Reason
from tensor_reshape.core.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.core.shapes import Question, check_dims
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.codec import build_path
from tensor_reshape.wire.messages import check_head_size, decode_expected, decode_known_dims, encode_shape, parse
from tensor_reshape.wire.tensors import decode_data_type, encode_data_type

INFER_SHAPE = "InferShape"
"""The method that moves no data."""

INFER_METHOD = build_path(INFER_SHAPE)

_OPERATION_NUMBERS = {
    STATIC_RESHAPE: reshape_pb2.OPERATION_STATIC_RESHAPE,
    DYNAMIC_RESHAPE: reshape_pb2.OPERATION_DYNAMIC_RESHAPE,
    RESHAPE: reshape_pb2.OPERATION_RESHAPE,
}
_OPERATIONS = {int(number): operation for operation, number in _OPERATION_NUMBERS.items()}


def encode_infer_request(question: Question) -> bytes:
    """Returns the request to infer the output shape."""
    message = reshape_pb2.InferShapeRequest(
        operation=_OPERATION_NUMBERS[question.operation],
        special_zero=question.special_zero,
        data=tensor_pb2.TensorSpec(shape=encode_shape(question.data)),
        shape=encode_shape(question.target),
    )
    if question.expected is not None:
        message.expected_shape.CopyFrom(encode_shape(question.expected))
    if question.data_type is not None:
        message.data.data_type = encode_data_type(question.data_type)
    return message.SerializeToString()


def decode_infer_request(raw: bytes) -> Question:
    """Reads a request to infer.

    Raises:
        InvalidRequestError: the message cannot be read, a required field is absent, or a dim is unknown.
        LimitError: HEAD_TOO_LARGE.
    """
    check_head_size(len(raw))
    message = parse(reshape_pb2.InferShapeRequest, raw)
    if message.operation not in _OPERATIONS:
        text = f"operation is {message.operation}, which names no operation"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, text, "operation", value=message.operation)
    named_type = message.data.data_type != tensor_pb2.DATA_TYPE_UNSPECIFIED
    return Question(
        operation=_OPERATIONS[message.operation],
        data=decode_known_dims(message.data, "shape", "data.dims"),
        target=decode_known_dims(message, "shape", "shape"),
        special_zero=message.special_zero if message.HasField("special_zero") else None,
        data_type=decode_data_type(message.data.data_type, "data.data_type") if named_type else None,
        expected=decode_expected(message),
    )


def encode_infer_response(dims: Sequence[int]) -> bytes:
    """Returns the response that carries the output's dims."""
    return reshape_pb2.InferShapeResponse(shape=encode_shape(dims)).SerializeToString()


def decode_infer_response(raw: bytes) -> tuple[int, ...]:
    """Reads the output's dims.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    dims = decode_known_dims(parse(reshape_pb2.InferShapeResponse, raw), "shape", "shape.dims")
    check_dims(dims, "shape.dims")
    return dims
