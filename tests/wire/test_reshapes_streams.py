"""Messages of StreamReshape round-trip, chunks without a copy, and invalid messages are rejected."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import Reason, ReshapeError
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.fields import encode_varint
from tensor_reshape.wire.reshapes import (
    Chunk,
    ReshapeCall,
    decode_stream_request,
    decode_stream_response,
    encode_accept,
    encode_chunk,
)
from tensor_reshape.wire.tensors import TensorView

MAX = 2**63 - 1
NO_BYTES = memoryview(b"")
OFFSETS = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**31, 2**35, 2**56, 2**62, MAX]
F32 = tensor_pb2.DATA_TYPE_F32
SCALAR = tensor_pb2.Tensor(data_type=F32)

offsets = st.sampled_from(OFFSETS) | st.integers(0, MAX)
payloads = st.binary(max_size=300)
dims = st.lists(st.integers(0, MAX), max_size=5).map(tuple)


def begin(tensor: tensor_pb2.Tensor | None = SCALAR, **fields: object) -> bytes:
    target = reshape_pb2.TargetShape()
    header = reshape_pb2.StaticReshapeRequest(shape=target, special_zero=True, data=tensor, **fields)  # type: ignore[arg-type]
    return reshape_pb2.StreamReshapeRequest(static_reshape=header).SerializeToString()


def test_first_stream_message_without_a_shape_is_rejected():
    header = reshape_pb2.StaticReshapeRequest(special_zero=True, data=SCALAR)
    raw = reshape_pb2.StreamReshapeRequest(static_reshape=header).SerializeToString()
    assert reject(raw) == (Reason.FIELD_MISSING, "shape")


def reject(raw: bytes) -> tuple[str, str]:
    with pytest.raises(ReshapeError) as caught:
        decode_stream_request(raw)
    return caught.value.reason, caught.value.field


def read_chunk(message: object) -> Chunk:
    assert isinstance(message, Chunk)
    return message


@given(offsets, payloads)
def test_chunk_encoding_matches_the_protobuf_class(offset: int, payload: bytes):
    raw = encode_chunk(offset, memoryview(payload))
    assert raw == reshape_pb2.StreamReshapeRequest(chunk=payload, offset=offset).SerializeToString()
    assert raw == reshape_pb2.StreamReshapeResponse(chunk=payload, offset=offset).SerializeToString()
    negative = reshape_pb2.StreamReshapeRequest(chunk=payload, offset=-1 - offset).SerializeToString()
    for sent, want in ((raw, offset), (negative, -1 - offset)):
        for chunk in map(read_chunk, (decode_stream_request(sent), decode_stream_response(sent))):
            assert (chunk.offset, bytes(chunk.payload)) == (want, payload)


def test_decoded_chunk_payload_is_a_view_of_the_message():
    for offset in OFFSETS:
        raw = encode_chunk(offset, memoryview(b"abc"))
        chunk = read_chunk(decode_stream_request(raw))
        assert (chunk.payload.obj is raw, chunk.message is raw) == (True, True), offset


def test_chunk_message_with_unusual_encoding_is_not_forwarded():
    forms = {
        "an offset of zero": b"\x20\x00\x7a\x01a",
        "an offset with zeros in front": b"\x20\x81\x00\x7a\x01a",
        "the offset behind": b"\x7a\x01a\x20\x01",
        "an unknown field": b"\x28\x00\x7a\x01a",
    }
    assert {form: read_chunk(decode_stream_request(raw)).message for form, raw in forms.items()} == dict.fromkeys(forms)


@given(st.sampled_from(list(DataType)), dims)
def test_encoded_stream_accept_message_is_decoded_unchanged(data_type: DataType, shape: tuple[int, ...]):
    raw = encode_accept(TensorView(data_type, shape, None, memoryview(b"not sent")))
    output = reshape_pb2.StreamReshapeResponse.FromString(raw).output
    assert (output.data_type, tuple(output.dims), output.data) == (int(data_type), shape, b"")
    assert decode_stream_response(raw) == TensorView(data_type, shape, None, NO_BYTES)


# message; reason, field
REJECTIONS: list[tuple[bytes, Reason, str]] = [
    (b"\xff", Reason.MESSAGE_MALFORMED, ""),
    (b"\x7a\x05ab", Reason.MESSAGE_MALFORMED, ""),  # a truncated chunk
    (b"", Reason.FIELD_MISSING, "part"),
    (b"\x20\x05", Reason.FIELD_MISSING, "part"),
    (begin(None), Reason.FIELD_MISSING, "data"),
    (begin(tensor_pb2.Tensor(data_type=F32, data=bytes(4))), Reason.CHUNK_UNEXPECTED, "data.data"),
    (begin(tensor_pb2.Tensor(data_type=F32, data=bytes(MAX_HEADER_BYTES))), Reason.HEADER_TOO_LARGE, ""),
    (begin(tensor_pb2.Tensor()), Reason.DATA_TYPE_UNSUPPORTED, "data.data_type"),
    (
        reshape_pb2.StreamReshapeRequest(reshape=reshape_pb2.ReshapeRequest(data=SCALAR)).SerializeToString(),
        Reason.FIELD_MISSING,
        "shape",
    ),
    *((field * (2 << 20), Reason.HEADER_TOO_LARGE, "") for field in (b"\x20\x01", b"\x2a\x00", b"\x0a\x00")),
]


@pytest.mark.timeout(60)
def test_undecodable_stream_message_is_rejected():
    for raw, reason, field in REJECTIONS:
        assert reject(raw) == (reason, field), raw[:20]


def test_last_oneof_field_of_a_stream_message_applies():
    assert bytes(read_chunk(decode_stream_request(begin() + b"\x7a\x01a")).payload) == b"a"
    assert isinstance(decode_stream_request(b"\x7a\x01a" + begin()), ReshapeCall)


def pad(size: int) -> bytes:
    """An unknown field with a total size of `size` bytes."""
    return b"\x2a" + encode_varint(size - 4) + bytes(size - 4)


@pytest.mark.parametrize("message", [begin(), b"\x7a\x01a"], ids=["beginning", "chunk"])
@pytest.mark.parametrize("behind", [False, True], ids=["in front", "behind"])
def test_header_size_of_stream_messages_is_limited(message: bytes, behind: bool):
    free = MAX_HEADER_BYTES - len(message) + message.count(b"a")  # the byte of the chunk does not count as a header
    fits, above = ((message + pad(size) if behind else pad(size) + message) for size in (free, free + 1))
    decode_stream_request(fits)
    assert reject(above) == (Reason.HEADER_TOO_LARGE, "")
