"""Encodes and decodes the messages of the methods that reshape a tensor.

Invariants:

- The payload is always at the end of its message, so a header can be built and cached without the payload.
- The length of a response header is a multiple of 8, as `encode_response_header` explains.
- The size of a header is checked before a message is parsed, so at most `MAX_HEADER_BYTES` are parsed in addition to
  the payload.

On a stream, a tensor is sent as a header, followed by chunks:

- A chunk has the same encoding in requests and responses, so a server can return a received chunk unchanged.
- The header message of a stream contains no bytes of its tensor.
- The fast reader recognizes a chunk that `encode_chunk` has written, without parsing the message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.dtypes import INTEGERS, DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import (
    DEFAULT_LIMITS,
    MAX_HEADER_BYTES,
    MAX_PROTOBUF_BYTES,
    MAX_RANK,
    Limits,
)
from tensor_reshape.rules.operations import OPERATIONS, Operation, check_rank, check_shape_data_type
from tensor_reshape.rules.questions import KnownQuestion, Question
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.dims import decode_expected, reject_partial, write_shape
from tensor_reshape.wire.fields import (
    PAYLOAD_TAG,
    AnyMessage,
    check_header_size,
    encode_varint,
    find_payload,
    measure_header,
    parse_message,
    read_field,
)
from tensor_reshape.wire.methods import OPERATION_METHODS, ReshapeRequest
from tensor_reshape.wire.tensors import TensorView, build_tensor_header, decode_tensor, encode_tensor

_ALIGNMENT = 8  # the widest element type has 8 bytes
_MAX_DIM_BYTES = 9  # the function `encode_response_header` explains this limit
_DATA_TYPE_TAG = b"\x08"  # this tag is for field 1 of Tensor, which is a varint
_DIMS_TAG = b"\x12"  # this tag is for field 2 of Tensor, which has packed varints
_ITEMS = dict(zip(sorted(INTEGERS), map(Struct, ("<b", "<h", "<i", "<q", "<B", "<H", "<I", "<Q")), strict=True))
"""The struct that reads one element of a shape tensor, for each integer type. The formats are in the order of the
numbers of the types.
"""


class Parts(NamedTuple):
    """The positions of the parts of a message that ends with a tensor (see `find_parts`).

    Attributes:
        header: the position at which the header of the message ends.
        tensor: the position at which the tensor begins.
        tensor_header: the end of the tensor's header.
        payload: the beginning of the tensor's bytes.
    """

    header: int
    tensor: int
    tensor_header: int
    payload: int


@dataclass(frozen=True, slots=True)
class ReshapeCall:
    """A request to execute an operation, which consists of the query and the data."""

    question: KnownQuestion
    data: TensorView


def encode_request_header(call: ReshapeCall, shape: TensorView | None) -> bytes:
    """Returns the encoded request without the bytes of its tensor, which come last.

    Args:
        call: the query and the data.
        shape: the requested shape as a tensor, or None for StaticReshape.

    Raises:
        LimitError: the reason is MESSAGE_TOO_LARGE if the message exceeds the limit of protobuf.
    """
    payload_bytes = call.data.payload.nbytes
    # The limit of the payload leaves space for the headers of the message and of the tensor.
    if payload_bytes > MAX_PROTOBUF_BYTES - 2 * MAX_HEADER_BYTES:
        text = f"the tensor has {payload_bytes} bytes; a message must be below 2 GiB"
        raise LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data", size=payload_bytes)
    # The length fields in the header include the payload, although the returned header does not contain the payload.
    tensor = build_tensor_header(call.data).SerializeToString() + PAYLOAD_TAG + encode_varint(payload_bytes)
    header = build_request_header(call.question, shape).SerializeToString()
    return header + PAYLOAD_TAG + encode_varint(len(tensor) + payload_bytes) + tensor


def build_request_header(question: KnownQuestion, shape: TensorView | None) -> ReshapeRequest:
    """Returns the request message without its tensor."""
    header: ReshapeRequest = OPERATION_METHODS[question.operation].request()
    if question.special_zero is not None:
        header.special_zero = question.special_zero
    if question.expected is not None:
        write_shape(header.expected_shape, question.expected)
    if isinstance(header, reshape_pb2.StaticReshapeRequest):
        header.shape.CopyFrom(reshape_pb2.TargetShape(items=question.target))
    elif shape is not None:
        header.shape.ParseFromString(b"".join(encode_tensor(shape)))
    return header


def decode_reshape_request(
    operation: Operation, raw: bytes, limits: Limits = DEFAULT_LIMITS, parts: Parts | None = None
) -> ReshapeCall:
    """Reads a request of `operation`.

    The payload of the result is a view of `raw`. The function does not check the layout of the tensor.

    Args:
        operation: the operation.
        raw: the serialized request.
        limits: the limits of the server.
        parts: the parts of `raw`, if they were already found.

    Raises:
        InvalidRequestError: the message cannot be read, or a required field is absent.
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    return read_call(operation, *_split(OPERATION_METHODS[operation].request, "data", raw, parts), limits)


def read_call(
    operation: Operation, header: ReshapeRequest, tensor: tensor_pb2.Tensor, payload: memoryview, limits: Limits
) -> ReshapeCall:
    """Reads a parsed request of `operation`: the message header, the tensor header, and the tensor's bytes.

    Raises:
        InvalidRequestError: a required field is absent, or the shape tensor cannot be read.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    data = decode_tensor(tensor, payload, "data")
    question = Question(
        operation=operation,
        data=data.dims,
        target=_decode_target(operation, header, limits),
        special_zero=header.special_zero if header.HasField("special_zero") else None,
        data_type=data.data_type,
        expected=decode_expected(operation, header),
    )
    return ReshapeCall(question, data)


def read_target(operation: Operation, shape: TensorView, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Returns the items of a shape tensor.

    Raises:
        InvalidRequestError: the reason is SHAPE_DATA_TYPE_UNSUPPORTED, SHAPE_RANK_INVALID, RANK_UNSUPPORTED, or a
            reason of `check_dims` or `check_layout`.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    check_shape_data_type(operation, shape.data_type)
    return read_items(operation, shape, limits)


def read_items(operation: Operation, shape: TensorView, limits: Limits = DEFAULT_LIMITS) -> list[int]:
    """Returns the items of a shape tensor without checking its data type.

    Raises:
        InvalidRequestError: the reason is any reason of `read_target` except SHAPE_DATA_TYPE_UNSUPPORTED.
        LimitError: the reason is RANK_LIMIT_EXCEEDED.
    """
    if len(shape.dims) != 1:
        text = f"shape has rank {len(shape.dims)}; a requested shape must be a tensor of rank 1"
        raise InvalidRequestError.of(Reason.SHAPE_RANK_INVALID, text, "shape.dims", rank=len(shape.dims))
    check_dims(shape.dims, "shape.dims")
    if shape.dims[0] > MAX_RANK:  # with a stride of 0, a tensor with one element in memory could have a trillion items
        check_rank(operation, shape.dims[0], "shape", limits)
    shape.check_layout("shape")
    # This function does not use numpy, for two reasons. Numpy integers overflow, and a server imports numpy only for
    # data with strides.
    item = _ITEMS[shape.data_type]
    if shape.strides is None:
        return [number for (number,) in item.iter_unpack(shape.payload)]
    step = item.size * shape.strides[0]
    return [item.unpack_from(shape.payload, index * step)[0] for index in range(shape.dims[0])]


def find_parts(raw: bytes, within: int = MAX_HEADER_BYTES) -> Parts | None:
    """Finds the parts of a message. Returns None if it has an unusual form, or a header of more than `within` bytes."""
    outer = find_payload(raw, within=within)
    inner = find_payload(raw, *outer[1:], within=within) if outer else None
    return Parts(*outer[:2], *inner[:2]) if outer and inner else None


def encode_response_header(data_type: DataType, dims: Sequence[int], payload_bytes: int) -> bytes:
    """Returns the encoded response of any operation without the bytes of its tensor, which come last.

    The length of the header is a multiple of 8. If a client receives the response at an aligned address, the elements
    are therefore also at an aligned address.
    """
    # To lengthen the header, the encoder first pads the varint of the shortest dim to at most 9 bytes. Any further
    # padding goes into the varint that contains the length of the dims. All protobuf readers accept such padding.
    # Longer varints are not safe, because protobufjs misreads a 32-bit number of more than 5 bytes, and protobuf-java
    # reads a 64-bit number of 10 bytes as negative. At most 7 bytes of padding are needed, and the shortest dim of any
    # tensor is below 2^35, so its varint takes at most 5 bytes. At least 4 bytes of padding therefore fit into this
    # varint, so the varint of the length has at most 4 bytes. If a tensor has no dims, the padding extends the varint
    # of the message length to 3 bytes.
    kind = _DATA_TYPE_TAG + encode_varint(data_type)
    numbers = [encode_varint(dim) for dim in dims]
    tail = PAYLOAD_TAG + encode_varint(payload_bytes)
    least = len(kind) + len(_encode_dims(numbers, 0)) + len(tail)
    # The width of the length field is computed for the largest padding, so it suffices for every padding.
    width = len(encode_varint(least + _ALIGNMENT - 1 + payload_bytes))
    missing = -(1 + width + least) % _ALIGNMENT
    tensor = kind + _encode_dims(numbers, missing) + tail
    width += missing - (len(tensor) - least)
    return PAYLOAD_TAG + _widen(encode_varint(len(tensor) + payload_bytes), width) + tensor


def decode_reshape_response(raw: bytes) -> TensorView:
    """Reads a response. The payload is a view of `raw`, and its size must match the dims.

    Raises:
        ReshapeError: the response is invalid.
    """
    # The same parser reads the responses of all operations, because they have the same encoding.
    _, tensor, payload = _split(reshape_pb2.StaticReshapeResponse, "output", raw)
    output = decode_tensor(tensor, payload, "output")
    check_dims(output.dims, "output.dims")
    output.check_layout("output")
    return output


def _encode_dims(numbers: Sequence[bytes], padding: int) -> bytes:
    """Returns the encoded dims of a tensor, with up to `padding` additional bytes in the varints.

    The function pads the varint of the shortest dim and the varint of the field length.
    """
    if not numbers:
        return b""
    width = len(encode_varint(sum(map(len, numbers)) + _ALIGNMENT - 1))
    padded, shortest = list(numbers), min(numbers, key=len)
    room = min(padding, _MAX_DIM_BYTES - len(shortest))
    padded[numbers.index(shortest)] = _widen(shortest, len(shortest) + room)
    packed = b"".join(padded)
    return _DIMS_TAG + _widen(encode_varint(len(packed)), width + padding - room) + packed


def _widen(varint: bytes, size: int) -> bytes:
    """Returns a varint of `size` bytes that encodes the same number."""
    missing = size - len(varint)
    if not missing:
        return varint
    return varint[:-1] + bytes([varint[-1] | 0x80, *[0x80] * (missing - 1), 0])


def _split(
    kind: type[AnyMessage], field: str, raw: bytes, parts: Parts | None = None
) -> tuple[AnyMessage, tensor_pb2.Tensor, memoryview]:
    """Returns three parts: the message without its tensor, the tensor without its bytes, and a view of the bytes."""
    parts = parts or find_parts(raw)
    if parts is None:
        return _parse_whole(kind, field, raw)
    check_header_size(parts.payload)
    # These two slices copy only headers, because both end before the payload.
    header = parse_message(kind, raw[: parts.header])
    tensor = parse_message(tensor_pb2.Tensor, raw[parts.tensor : parts.tensor_header])
    return header, tensor, memoryview(raw)[parts.payload :]


def _parse_whole(kind: type[AnyMessage], field: str, raw: bytes) -> tuple[AnyMessage, tensor_pb2.Tensor, memoryview]:
    check_header_size(measure_header(raw))
    message = parse_message(kind, raw)
    if not message.HasField(field):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, f"{field} is required", field)
    tensor: tensor_pb2.Tensor = getattr(message, field)
    return message, tensor, memoryview(tensor.data)


def _decode_target(operation: Operation, header: ReshapeRequest, limits: Limits) -> Sequence[int]:
    if not header.HasField("shape"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "shape is required", "shape")
    if isinstance(header, reshape_pb2.StaticReshapeRequest):
        if header.shape.partial:
            text = "shape.partial is not empty; StaticReshape executes with data, so each item must be a number"
            raise reject_partial(text, "shape.partial")
        return tuple(header.shape.items)
    return read_target(operation, decode_tensor(header.shape, memoryview(header.shape.data), "shape"), limits)


DEFAULT_CHUNK_BYTES = 1024 * 1024
"""The default size of a chunk. Sizes from 512 KiB to 4 MiB are equally fast. Smaller chunks need more messages, and
larger chunks need more memory.
"""

_OFFSET_TAG = b"\x20"  # field 4, a varint
_MAX_OFFSET_BYTES = 9  # an offset has at most nine bytes, because a varint of ten bytes is a negative number
_NO_BYTES = memoryview(b"")


class Chunk(NamedTuple):
    """A part of the bytes of a tensor.

    Attributes:
        offset: the number of bytes of the tensor that come before the chunk.
        payload: the bytes of the chunk.
        message: the whole encoded message, if a server can return it unchanged; otherwise None.
    """

    offset: int
    payload: memoryview
    message: bytes | None


def encode_begin(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns the encoded message with which a stream begins a tensor.

    Args:
        call: the query and the data.
        shape: the requested shape as a tensor, or None for StaticReshape.
    """
    header = build_request_header(call.question, shape)
    header.data.CopyFrom(build_tensor_header(call.data))
    message = reshape_pb2.StreamReshapeRequest()
    getattr(message, call.question.operation.name).CopyFrom(header)
    return message.SerializeToString()


def encode_chunk(offset: int, payload: memoryview) -> bytes:
    """Returns the encoded message of a chunk, which is the same in requests and responses."""
    begin = _OFFSET_TAG + encode_varint(offset) if offset else b""  # protobuf omits a field with the value 0
    return b"".join((begin, PAYLOAD_TAG, encode_varint(payload.nbytes), payload))


def decode_stream_request(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> ReshapeCall | Chunk:
    """Reads a message from the client, which is a call without the tensor's bytes, or a chunk of these bytes.

    Raises:
        InvalidRequestError: the message cannot be read, a required field is absent, or a header has tensor bytes.
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    chunk = find_chunk(raw)  # the compact form of a chunk is tried first, because most messages of a stream are chunks
    if chunk is not None:
        return chunk
    check_header_size(measure_header(raw, nested=False))
    message = parse_message(reshape_pb2.StreamReshapeRequest, raw)
    part = message.WhichOneof("part")
    if part is None:
        text = "a message of the stream must begin a tensor or contain a chunk"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "part")
    if part == "chunk":
        return Chunk(message.offset, memoryview(message.chunk), None)
    return _read_begin(OPERATIONS[part], getattr(message, part), limits)


def encode_accept(output: TensorView) -> bytes:
    """Returns the encoded message with which a server accepts a tensor."""
    return reshape_pb2.StreamReshapeResponse(output=build_tensor_header(output)).SerializeToString()


def decode_stream_response(raw: bytes) -> TensorView | Chunk:
    """Reads a message from the server, which is the output without its bytes, or a chunk of these bytes.

    Raises:
        ReshapeError: the response is invalid.
    """
    chunk = find_chunk(raw)
    if chunk is not None:
        return chunk
    # The header size is checked, because a malicious server must not exhaust the memory of a client.
    check_header_size(measure_header(raw, nested=False))
    message = parse_message(reshape_pb2.StreamReshapeResponse, raw)
    if message.WhichOneof("part") == "chunk":
        return Chunk(message.offset, memoryview(message.chunk), None)
    output = decode_tensor(message.output, _NO_BYTES, "output")
    check_dims(output.dims, "output.dims")
    return output


def _read_begin(operation: Operation, header: ReshapeRequest, limits: Limits) -> ReshapeCall:
    if not header.HasField("data"):
        raise InvalidRequestError.of(Reason.FIELD_MISSING, "data is required", "data")
    if header.data.data:
        text = f"data.data has {len(header.data.data)} bytes; on a stream, send the bytes in chunks"
        raise InvalidRequestError.of(Reason.CHUNK_UNEXPECTED, text, "data.data", have=len(header.data.data))
    return read_call(operation, header, header.data, _NO_BYTES, limits)


def find_chunk(raw: bytes) -> Chunk | None:
    """Returns a chunk if the message has the form that `encode_chunk` writes; None for all other messages.

    Tags and lengths may be encoded in more bytes than necessary, because protobuf allows such encodings.
    """
    offset, field = 0, read_field(raw, 0)
    if field and field[0] == _OFFSET_TAG[0]:
        offset, field = _read_offset(raw[field[1] : field[2]]), read_field(raw, field[2])
    # No field may follow the payload of a chunk, because a second chunk or offset would replace the first one.
    if field is None or field[0] != PAYLOAD_TAG[0] or field[2] != len(raw) or offset < 0:
        return None
    return Chunk(offset, memoryview(raw)[field[1] :], raw)


def _read_offset(varint: bytes) -> int:
    """Returns the offset that a varint encodes; -1 if the varint has more than 9 bytes, or unnecessary bytes."""
    if len(varint) > _MAX_OFFSET_BYTES or varint.endswith(b"\0"):
        return -1
    return sum((byte & 0x7F) << (7 * index) for index, byte in enumerate(varint))
