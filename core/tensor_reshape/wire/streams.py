"""Encodes and decodes the messages of StreamReshape. On a stream, a tensor is sent as a header, followed by chunks.

- A chunk has the same encoding in requests and responses, so a server can return a received chunk unchanged.
- The header message of a stream contains no bytes of its tensor. The size of a header is checked before it is parsed.
- The fast reader recognizes a chunk that `encode_chunk` has written, without parsing the message.
"""

from typing import NamedTuple

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.fields import (
    PAYLOAD_TAG,
    check_header_size,
    encode_varint,
    measure_header,
    parse_message,
    read_field,
)
from tensor_reshape.wire.methods import ReshapeRequest
from tensor_reshape.wire.reshapes import ReshapeCall, build_request_header, read_call
from tensor_reshape.wire.tensors import TensorView, build_tensor_header, decode_tensor

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
    """Returns the encoded message that begins a tensor.

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
        LimitError: HEADER_TOO_LARGE.
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
        text = "data is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "data")
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
    """Returns the offset in a varint; -1 if the varint has more than 9 bytes, or more bytes than necessary."""
    if len(varint) > _MAX_OFFSET_BYTES or varint.endswith(b"\0"):
        return -1
    return sum((byte & 0x7F) << (7 * index) for index, byte in enumerate(varint))
