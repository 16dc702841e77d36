"""Requests and responses, encoded and decoded: both sides of every method of the contract."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.core.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.core.limits import DEFAULT_LIMITS, MAX_HEAD_BYTES, MAX_RANK, Limits
from tensor_reshape.core.operations import (
    DYNAMIC_RESHAPE,
    RESHAPE,
    STATIC_RESHAPE,
    Operation,
    check_rank,
    check_shape_data_type,
)
from tensor_reshape.core.shapes import Question, check_dims
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.arrays import build_array
from tensor_reshape.wire.payloads import PAYLOAD_TAG, encode_length, find_payload, measure_head
from tensor_reshape.wire.tensors import TensorView, decode_data_type, decode_tensor, encode_data_type, encode_tensor

SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"].full_name
"""The full name of the service, also for its health."""

INFER_SHAPE = "InferShape"
"""The method that moves no data."""

METHODS = {STATIC_RESHAPE: "StaticReshape", DYNAMIC_RESHAPE: "DynamicReshape", RESHAPE: "Reshape"}
"""The method that executes each operation."""

_MAX_PROTOBUF_BYTES = 2**31 - 1
_ReshapeRequest = reshape_pb2.StaticReshapeRequest | reshape_pb2.DynamicReshapeRequest | reshape_pb2.ReshapeRequest
_REQUESTS: dict[Operation, type[_ReshapeRequest]] = {
    STATIC_RESHAPE: reshape_pb2.StaticReshapeRequest,
    DYNAMIC_RESHAPE: reshape_pb2.DynamicReshapeRequest,
    RESHAPE: reshape_pb2.ReshapeRequest,
}
_OPERATION_NUMBERS = {
    STATIC_RESHAPE: reshape_pb2.OPERATION_STATIC_RESHAPE,
    DYNAMIC_RESHAPE: reshape_pb2.OPERATION_DYNAMIC_RESHAPE,
    RESHAPE: reshape_pb2.OPERATION_RESHAPE,
}
_OPERATIONS = {int(number): operation for operation, number in _OPERATION_NUMBERS.items()}

_AnyMessage = TypeVar("_AnyMessage", bound=Message)


@dataclass(frozen=True, slots=True)
class ReshapeCall:
    """A request to execute: what decides the shape, and the data."""

    question: Question
    data: TensorView


def encode_reshape_request(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns the request of the question's operation.

    Args:
        call: what is asked of which data.
        shape: the target shape as a tensor, for the operations that take one; None for StaticReshape.

    Raises:
        LimitError: MESSAGE_TOO_LARGE, where protobuf itself cannot hold the message.
    """
    question = call.question
    head: _ReshapeRequest = _REQUESTS[question.operation]()
    if question.special_zero is not None:
        head.special_zero = question.special_zero
    if question.expected is not None:
        head.expected_shape.CopyFrom(_encode_shape(question.expected))
    if isinstance(head, reshape_pb2.StaticReshapeRequest):
        head.shape.extend(question.target)
    elif shape is not None:
        head.shape.ParseFromString(b"".join(encode_tensor(shape)))
    return _join(head.SerializeToString(), call.data)


def decode_reshape_request(operation: Operation, raw: bytes, limits: Limits = DEFAULT_LIMITS) -> ReshapeCall:
    """Reads a request of `operation`; the data's payload is a view of `raw`, its layout unchecked.

    Raises:
        InvalidRequestError: the message cannot be read, or a required field is absent.
        LimitError: HEAD_TOO_LARGE.
    """
    head, tensor, payload = _split(_REQUESTS[operation], "data", raw)
    data = decode_tensor(tensor, payload, "data")
    question = Question(
        operation=operation,
        data=data.dims,
        target=_decode_target(operation, head, limits),
        special_zero=head.special_zero if head.HasField("special_zero") else None,
        data_type=data.data_type,
        expected=_decode_expected(head),
    )
    return ReshapeCall(question, data)


def read_target(operation: Operation, shape: TensorView, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Returns the items of a shape tensor.

    Raises:
        InvalidRequestError: SHAPE_DATA_TYPE_UNSUPPORTED, SHAPE_RANK_INVALID, RANK_UNSUPPORTED, or the reasons of its
            dims and layout.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    check_shape_data_type(operation, shape.data_type)
    if len(shape.dims) != 1:
        text = f"shape has rank {len(shape.dims)}; a target shape is a tensor of rank 1"
        raise InvalidRequestError.of(Reason.SHAPE_RANK_INVALID, text, "shape.dims", rank=len(shape.dims))
    check_dims(shape.dims, "shape.dims")
    if shape.dims[0] > MAX_RANK:  # no operation takes so many, and a stride of 0 makes a trillion of them out of one
        check_rank(operation, shape.dims[0], "shape", limits)
    shape.check_layout("shape")
    return [int(item) for item in build_array(shape)]


def encode_reshape_response(output: TensorView) -> bytes:
    """Returns the response: all operations answer with the same bytes."""
    return _join(b"", output)


def decode_reshape_response(raw: bytes) -> TensorView:
    """Reads a response; the payload is a view of `raw`, checked to be exactly the tensor.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    _, tensor, payload = _split(reshape_pb2.StaticReshapeResponse, "output", raw)
    output = decode_tensor(tensor, payload, "output")
    check_dims(output.dims, "output.dims")
    output.check_layout("output")
    return output


def encode_infer_request(question: Question) -> bytes:
    """Returns the request to infer the output shape."""
    message = reshape_pb2.InferShapeRequest(
        operation=_OPERATION_NUMBERS[question.operation],
        special_zero=question.special_zero,
        data=tensor_pb2.TensorSpec(shape=_encode_shape(question.data)),
        shape=_encode_shape(question.target),
    )
    if question.expected is not None:
        message.expected_shape.CopyFrom(_encode_shape(question.expected))
    if question.data_type is not None:
        message.data.data_type = encode_data_type(question.data_type)
    return message.SerializeToString()


def decode_infer_request(raw: bytes) -> Question:
    """Reads a request to infer.

    Raises:
        InvalidRequestError: the message cannot be read, a required field is absent, or a dim is unknown.
        LimitError: HEAD_TOO_LARGE.
    """
    _check_head_size(len(raw))
    message = _parse(reshape_pb2.InferShapeRequest, raw)
    if message.operation not in _OPERATIONS:
        text = f"operation is {message.operation}, which names no operation"
        raise InvalidRequestError.of(Reason.OPERATION_UNSPECIFIED, text, "operation", value=message.operation)
    named_type = message.data.data_type != tensor_pb2.DATA_TYPE_UNSPECIFIED
    return Question(
        operation=_OPERATIONS[message.operation],
        data=_decode_known_dims(message.data, "shape", "data.dims"),
        target=_decode_known_dims(message, "shape", "shape"),
        special_zero=message.special_zero if message.HasField("special_zero") else None,
        data_type=decode_data_type(message.data.data_type, "data.data_type") if named_type else None,
        expected=_decode_expected(message),
    )


def encode_infer_response(dims: Sequence[int]) -> bytes:
    """Returns the response that carries the output's dims."""
    return reshape_pb2.InferShapeResponse(shape=_encode_shape(dims)).SerializeToString()


def decode_infer_response(raw: bytes) -> tuple[int, ...]:
    """Reads the output's dims.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    dims = _decode_known_dims(_parse(reshape_pb2.InferShapeResponse, raw), "shape", "shape.dims")
    check_dims(dims, "shape.dims")
    return dims


def _join(head: bytes, tensor: TensorView) -> bytes:
    pieces = encode_tensor(tensor)
    length = sum(map(len, pieces))
    if length > _MAX_PROTOBUF_BYTES - MAX_HEAD_BYTES:
        message = f"the tensor takes {length} bytes; one message holds less than 2 GiB"
        raise LimitError.of(Reason.MESSAGE_TOO_LARGE, message, "data", size=length)
    return b"".join([head, PAYLOAD_TAG, encode_length(length), *pieces])


def _split(kind: type[_AnyMessage], field: str, raw: bytes) -> tuple[_AnyMessage, tensor_pb2.Tensor, memoryview]:
    """Returns the message without its tensor, the tensor without its bytes, and the bytes as a view."""
    outer = find_payload(raw)
    inner = find_payload(raw, outer.start) if outer else None
    if outer is None or inner is None:
        return _parse_whole(kind, field, raw)
    _check_head_size(inner.start)
    head = _parse(kind, raw[: outer.head_end])
    tensor = _parse(tensor_pb2.Tensor, raw[outer.start : inner.head_end])
    return head, tensor, memoryview(raw)[inner.start :]


def _parse_whole(kind: type[_AnyMessage], field: str, raw: bytes) -> tuple[_AnyMessage, tensor_pb2.Tensor, memoryview]:
    _check_head_size(measure_head(raw))
    message = _parse(kind, raw)
    if not message.HasField(field):
        text = f"{field} is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, field)
    tensor: tensor_pb2.Tensor = getattr(message, field)
    return message, tensor, memoryview(tensor.data)


def _parse(kind: type[_AnyMessage], raw: bytes) -> _AnyMessage:
    try:
        return kind.FromString(raw)
    except DecodeError:
        text = f"the message is not a {kind.DESCRIPTOR.full_name}"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text) from None


def _check_head_size(size: int) -> None:
    if size > MAX_HEAD_BYTES:
        text = f"the message has {size} or more bytes besides its tensor's; {MAX_HEAD_BYTES} are admitted"
        raise LimitError.of(Reason.HEAD_TOO_LARGE, text, size=size, limit=MAX_HEAD_BYTES)


def _decode_target(operation: Operation, head: _ReshapeRequest, limits: Limits) -> Sequence[int]:
    if isinstance(head, reshape_pb2.StaticReshapeRequest):
        return tuple(head.shape)
    if not head.HasField("shape"):
        text = "shape is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "shape")
    return read_target(operation, decode_tensor(head.shape, memoryview(head.shape.data), "shape"), limits)


def _decode_expected(message: _ReshapeRequest | reshape_pb2.InferShapeRequest) -> Sequence[int | None] | None:
    if not message.HasField("expected_shape"):
        return None
    return _decode_dims(message.expected_shape.dims, "expected_shape.dims")


def _decode_known_dims(message: Message, field: str, path: str) -> tuple[int, ...]:
    """Reads the dims of a message's field; `path` is what a refusal calls them."""
    if not message.HasField(field):
        missing = path.removesuffix(".dims")
        text = f"{missing} is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, missing)
    dims = _decode_dims(getattr(message, field).dims, path)
    for index, dim in enumerate(dims):
        if dim is None:
            text = f"{path}[{index}] has no value; every dim must be known"
            raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, f"{path}[{index}]", index=index)
    return tuple(dim for dim in dims if dim is not None)


def _decode_dims(dims: Iterable[tensor_pb2.Dim], path: str) -> list[int | None]:
    return [_decode_dim(dim, f"{path}[{index}]") for index, dim in enumerate(dims)]


def _decode_dim(dim: tensor_pb2.Dim, path: str) -> int | None:
    if dim.HasField("value"):
        return dim.value
    if dim.ByteSize():  # it says something that this version cannot read: to drop it would be to check less than asked
        text = f"{path} is of a kind that this server does not know"
        raise InvalidRequestError.of(Reason.DIM_UNKNOWN, text, path)
    return None


def _encode_shape(dims: Sequence[int | None]) -> tensor_pb2.Shape:
    return tensor_pb2.Shape(dims=_encode_dims(dims))


def _encode_dims(dims: Sequence[int | None]) -> list[tensor_pb2.Dim]:
    return [tensor_pb2.Dim() if dim is None else tensor_pb2.Dim(value=dim) for dim in dims]
