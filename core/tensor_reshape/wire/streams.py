"""The messages of StreamReshape, both sides: a tensor begins with a head, and its bytes follow in chunks.

A chunk has the same bytes in a request and in a response, so a server that moves no element passes it on as it is.
"""

from typing import NamedTuple

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.fields import PAYLOAD_TAG, encode_length, measure_head, read_number
from tensor_reshape.wire.messages import check_head_size, parse
from tensor_reshape.wire.reshapes import ReshapeCall, ReshapeRequest, build_head, build_path, read_call
from tensor_reshape.wire.tensors import TensorView, build_tensor_head, decode_tensor

STREAM_RESHAPE = "StreamReshape"
"""The method that takes tensors in chunks."""

STREAM_METHOD = build_path(STREAM_RESHAPE)

DEFAULT_CHUNK_BYTES = 1024 * 1024
"""512 KiB to 4 MiB are equally fast; smaller ones cost more calls, larger ones more memory."""

_PARTS = {STATIC_RESHAPE: "static_reshape", DYNAMIC_RESHAPE: "dynamic_reshape", RESHAPE: "reshape"}
_OPERATIONS = {part: operation for operation, part in _PARTS.items()}
_OFFSET_TAG = b"\x20"  # field 4, a varint
_NO_BYTES = memoryview(b"")


class Chunk(NamedTuple):
    """Some bytes of a tensor.

    Attributes:
        offset: how many bytes come before them.
        payload: the bytes.
        message: the whole message, where it can be passed on as it is.
    """

    offset: int
    payload: memoryview
    message: bytes | None


def encode_begin(call: ReshapeCall, shape: TensorView | None = None) -> bytes:
    """Returns the message that begins a tensor; `shape` as in `codec.encode_reshape_request`."""
    head = build_head(call.question, shape)
    head.data.CopyFrom(build_tensor_head(call.data))
    message = reshape_pb2.StreamReshapeRequest()
    getattr(message, _PARTS[call.question.operation]).CopyFrom(head)
    return message.SerializeToString()


def encode_chunk(offset: int, payload: memoryview) -> bytes:
    """Returns the chunk, to either side."""
    begin = _OFFSET_TAG + encode_length(offset) if offset else b""
    return b"".join((begin, PAYLOAD_TAG, encode_length(payload.nbytes), payload))


def decode_stream_request(raw: bytes, limits: Limits = DEFAULT_LIMITS) -> ReshapeCall | Chunk:
    """Reads what a client sends; the data of a call that begins has no bytes yet.

    Raises:
        InvalidRequestError: the message cannot be read, a required field is absent, or a head carries bytes.
        LimitError: HEAD_TOO_LARGE.
    """
    chunk = find_chunk(raw)
    if chunk is not None:
        return chunk
    check_head_size(measure_head(raw, nested=False))
    message = parse(reshape_pb2.StreamReshapeRequest, raw)
    part = message.WhichOneof("part")
    if part is None:
        text = "a message of the stream is a request that begins a tensor, or a chunk"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "part")
    if part == "chunk":
        return Chunk(message.offset, memoryview(message.chunk), None)
    return _read_begin(_OPERATIONS[part], getattr(message, part), limits)


def encode_accept(output: TensorView) -> bytes:
    """Returns the answer to a tensor's head."""
    return reshape_pb2.StreamReshapeResponse(output=build_tensor_head(output)).SerializeToString()


def decode_stream_response(raw: bytes) -> TensorView | Chunk:
    """Reads what a server sends; the output has no bytes yet.

    Raises:
        ReshapeError: it is not a response of this contract.
    """
    chunk = find_chunk(raw)
    if chunk is not None:
        return chunk
    check_head_size(measure_head(raw, nested=False))
    message = parse(reshape_pb2.StreamReshapeResponse, raw)
    if message.WhichOneof("part") == "chunk":
        return Chunk(message.offset, memoryview(message.chunk), None)
    output = decode_tensor(message.output, _NO_BYTES, "output")
    check_dims(output.dims, "output.dims")
    return output


def _read_begin(operation: Operation, head: ReshapeRequest, limits: Limits) -> ReshapeCall:
    if not head.HasField("data"):
        text = "data is required"
        raise InvalidRequestError.of(Reason.FIELD_MISSING, text, "data")
    if head.data.data:
        text = f"data.data has {len(head.data.data)} bytes; on a stream the bytes follow in chunks"
        raise InvalidRequestError.of(Reason.CHUNK_UNEXPECTED, text, "data.data", have=len(head.data.data))
    return read_call(operation, head, head.data, _NO_BYTES, limits)


def find_chunk(raw: bytes) -> Chunk | None:
    """Reads a chunk in the form that `encode_chunk` gives; None for anything else, which the generated class reads.

    As everywhere in protobuf, a length may be written longer than it must be.
    """
    offset, position = 0, 0
    if raw[:1] == _OFFSET_TAG:
        offset, position = _read_offset(raw)
    if raw[position : position + 1] != PAYLOAD_TAG:
        return None
    length, start = read_number(raw, position + 1)
    if length < 0 or start + length != len(raw):
        return None
    return Chunk(offset, memoryview(raw)[start:], raw)


def _read_offset(raw: bytes) -> tuple[int, int]:
    """Returns the offset and where it ends; 0 and 0 for one of more bytes than 9, or than it needs."""
    offset = 0
    for index, byte in enumerate(raw[1:10]):
        offset |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - a varint goes on while the highest bit is set
            return (offset, index + 2) if byte else (0, 0)
    return 0, 0
