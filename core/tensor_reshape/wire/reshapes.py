"""Requests and responses, encoded and decoded: both sides of every method of the contract."""

from collections.abc import Sequence
from dataclasses import dataclass

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import (
    DEFAULT_LIMITS,
    LIGHT_HEAD_BYTES,
    MAX_HEAD_BYTES,
    MAX_PROTOBUF_BYTES,
    MAX_RANK,
    Limits,
)
from tensor_reshape.rules.operations import (
    DYNAMIC_RESHAPE,
    RESHAPE,
    STATIC_RESHAPE,
    Operation,
    check_rank,
    check_shape_data_type,
)
from tensor_reshape.rules.questions import KnownQuestion, Question
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.arrays import build_array
from tensor_reshape.wire.dims import encode_shape
from tensor_reshape.wire.fields import PAYLOAD_TAG, encode_length, find_payload, measure_head
from tensor_reshape.wire.messages import (
    AnyMessage,
    check_head_size,
    decode_expected,
    parse,
)
from tensor_reshape.wire.tensors import TensorView, decode_tensor, encode_data_type, encode_tensor

SERVICE = reshape_pb2.DESCRIPTOR.services_by_name["ReshapeService"].full_name
"""The full name of the service, also for its health."""

METHODS = {STATIC_RESHAPE: "StaticReshape", DYNAMIC_RESHAPE: "DynamicReshape", RESHAPE: "Reshape"}
"""The method that executes each operation."""

_ALIGNMENT = 8  # of the widest element
_MAX_DIM_BYTES, _MAX_LENGTH_BYTES = 9, 5
_DATA_TYPE_TAG = b"\x08"  # field 1 of Tensor, a varint
_DIMS_TAG = b"\x12"  # field 2 of Tensor, packed
ReshapeRequest = reshape_pb2.StaticReshapeRequest | reshape_pb2.DynamicReshapeRequest | reshape_pb2.ReshapeRequest
_REQUESTS: dict[Operation, type[ReshapeRequest]] = {
    STATIC_RESHAPE: reshape_pb2.StaticReshapeRequest,
    DYNAMIC_RESHAPE: reshape_pb2.DynamicReshapeRequest,
    RESHAPE: reshape_pb2.ReshapeRequest,
}


@dataclass(frozen=True, slots=True)
class ReshapeCall:
    """A request to execute: what decides the shape, and the data."""

    question: KnownQuestion
    data: TensorView


def build_path(method: str) -> str:
    """Returns a method's full name, as calls and servers take it."""
    return f"/{SERVICE}/{method}"


def encode_reshape_request(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns the request of the question's operation.

    Args:
        call: what is asked of which data.
        shape: the target shape as a tensor, for the operations that take one; None for StaticReshape.

    Raises:
        LimitError: MESSAGE_TOO_LARGE, where protobuf itself cannot hold the message.
    """
    data = call.data
    question = call.question._replace(data=data.dims, data_type=data.data_type)
    head = encode_request_head(question, data.strides, data.payload.nbytes, shape)
    return b"".join((head, data.payload))


def encode_request_head(
    question: KnownQuestion, strides: Sequence[int] | None, payload_bytes: int, shape: TensorView | None
) -> bytes:
    """Returns the request but for the tensor's bytes, which follow it; the question names the data type.

    Raises:
        LimitError: MESSAGE_TOO_LARGE, where protobuf itself cannot hold the message.
    """
    if payload_bytes > MAX_PROTOBUF_BYTES - 2 * MAX_HEAD_BYTES:
        text = f"the tensor takes {payload_bytes} bytes; one message holds less than 2 GiB"
        raise LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data", size=payload_bytes)
    message = tensor_pb2.Tensor(dims=question.data, strides=strides)
    if question.data_type is not None:
        message.data_type = encode_data_type(question.data_type)
    tensor = message.SerializeToString() + PAYLOAD_TAG + encode_length(payload_bytes)
    head = build_head(question, shape).SerializeToString()
    return head + PAYLOAD_TAG + encode_length(len(tensor) + payload_bytes) + tensor


def build_head(question: KnownQuestion, shape: TensorView | None) -> ReshapeRequest:
    """Returns the request of the question's operation without its tensor."""
    head: ReshapeRequest = _REQUESTS[question.operation]()
    if question.special_zero is not None:
        head.special_zero = question.special_zero
    if question.expected is not None:
        head.expected_shape.CopyFrom(encode_shape(question.expected))
    if isinstance(head, reshape_pb2.StaticReshapeRequest):
        head.shape.extend(question.target)
    elif shape is not None:
        head.shape.ParseFromString(b"".join(encode_tensor(shape)))
    return head


def decode_reshape_request(operation: Operation, raw: bytes, limits: Limits = DEFAULT_LIMITS) -> ReshapeCall:
    """Reads a request of `operation`; the data's payload is a view of `raw`, its layout unchecked.

    Raises:
        InvalidRequestError: the message cannot be read, or a required field is absent.
        LimitError: HEAD_TOO_LARGE.
    """
    return read_call(operation, *_split(_REQUESTS[operation], "data", raw), limits)


def read_call(
    operation: Operation, head: ReshapeRequest, tensor: tensor_pb2.Tensor, payload: memoryview, limits: Limits
) -> ReshapeCall:
    """Reads a request of `operation` that has been parsed: `head`, its tensor, and the tensor's bytes.

    Raises:
        InvalidRequestError: a required field is absent, or the shape tensor cannot be read.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    data = decode_tensor(tensor, payload, "data")
    question = Question(
        operation=operation,
        data=data.dims,
        target=_decode_target(operation, head, limits),
        special_zero=head.special_zero if head.HasField("special_zero") else None,
        data_type=data.data_type,
        expected=decode_expected(operation, head),
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


def find_tensor_bytes(raw: bytes) -> int | None:
    """Returns where the tensor's bytes begin that reach to the end of `raw`; None where no light head precedes them."""
    outer = find_payload(raw, within=LIGHT_HEAD_BYTES)
    inner = find_payload(raw, *outer[1:], within=LIGHT_HEAD_BYTES) if outer else None
    return inner[1] if inner else None


def encode_response_head(data_type: DataType, dims: Sequence[int], payload_bytes: int) -> bytes:
    """Returns the response but for the tensor's bytes, which follow it: all operations answer with the same.

    The head's length is a multiple of 8, so whoever receives the response at an aligned address has aligned elements.
    """
    # To that end one dim is written in up to 9 bytes, or a length in up to 5: as much as every reader in use takes.
    # protobufjs loses its place behind 5 bytes of a 32-bit number; protobuf-java reads 10 of a 64-bit one as negative.
    kind = _DATA_TYPE_TAG + encode_length(data_type)
    numbers = [encode_length(dim) for dim in dims]
    tail = PAYLOAD_TAG + encode_length(payload_bytes)
    least = len(kind) + len(_encode_dims(numbers, 0)) + len(tail)
    # A length gets the bytes that it takes with all padding there can be: so no padding makes it longer.
    width = len(encode_length(least + _ALIGNMENT - 1 + payload_bytes))
    missing = -(1 + width + least) % _ALIGNMENT
    tensor = kind + _encode_dims(numbers, missing) + tail
    width += missing - (len(tensor) - least)  # what the dims do not take: all of it where there are none
    return PAYLOAD_TAG + _widen(encode_length(len(tensor) + payload_bytes), min(width, _MAX_LENGTH_BYTES)) + tensor


def encode_reshape_response(output: TensorView) -> bytes:
    """Returns the response of every operation."""
    head = encode_response_head(output.data_type, output.dims, output.payload.nbytes)
    return b"".join((head, output.payload))


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


def _encode_dims(numbers: Sequence[bytes], padding: int) -> bytes:
    """Returns the field of a tensor's dims in up to so many bytes more: in the shortest dim, then in the length."""
    if not numbers:
        return b""
    width = len(encode_length(sum(map(len, numbers)) + _ALIGNMENT - 1))
    padded, shortest = list(numbers), min(numbers, key=len)
    room = min(padding, _MAX_DIM_BYTES - len(shortest))
    padded[numbers.index(shortest)] = _widen(shortest, len(shortest) + room)
    packed = b"".join(padded)
    width = min(width + padding - room, _MAX_LENGTH_BYTES)
    return _DIMS_TAG + _widen(encode_length(len(packed)), width) + packed


def _widen(varint: bytes, size: int) -> bytes:
    """Returns the same number in `size` bytes, of which it takes no more."""
    missing = size - len(varint)
    if not missing:
        return varint
    return varint[:-1] + bytes([varint[-1] | 0x80, *[0x80] * (missing - 1), 0])


def _split(kind: type[AnyMessage], field: str, raw: bytes) -> tuple[AnyMessage, tensor_pb2.Tensor, memoryview]:
    """Returns the message without its tensor, the tensor without its bytes, and the bytes as a view."""
    outer = find_payload(raw)
    inner = find_payload(raw, *outer[1:]) if outer else None
    if outer is None or inner is None:
        return _parse_whole(kind, field, raw)
    check_head_size(inner[1])
    head = parse(kind, raw[: outer[0]])
    tensor = parse(tensor_pb2.Tensor, raw[outer[1] : inner[0]])
    return head, tensor, memoryview(raw)[inner[1] :]


def _parse_whole(kind: type[AnyMessage], field: str, raw: bytes) -> tuple[AnyMessage, tensor_pb2.Tensor, memoryview]:
    check_head_size(measure_head(raw))
    message = parse(kind, raw)
    if not message.HasField(field):
        text = f"{field} is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, field)
    tensor: tensor_pb2.Tensor = getattr(message, field)
    return message, tensor, memoryview(tensor.data)


def _decode_target(operation: Operation, head: ReshapeRequest, limits: Limits) -> Sequence[int]:
    if isinstance(head, reshape_pb2.StaticReshapeRequest):
        return tuple(head.shape)
    if not head.HasField("shape"):
        text = "shape is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "shape")
    return read_target(operation, decode_tensor(head.shape, memoryview(head.shape.data), "shape"), limits)
