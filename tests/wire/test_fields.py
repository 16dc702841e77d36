"""Reading and writing of single protobuf fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.fields import (
    SHORT_BYTES,
    check_header_size,
    encode_field,
    encode_varint,
    find_payload,
    measure_header,
    parse_message,
    read_varint,
)

# Encodings of a tensor message whose bytes are the last field, and of some in which they are not; the bytes.
FORMS: dict[str, tuple[bytes, bytes | None]] = {
    "the bytes alone": (b"\x7a\x01a", b"a"),
    "no bytes in the field": (b"\x08\x0e\x7a\x00", b""),
    "behind a varint": (b"\x08\x0e\x7a\x01a", b"a"),
    "behind a varint of ten bytes": (b"\x08" + b"\xff" * 9 + b"\x01\x7a\x01a", b"a"),
    "behind packed numbers": (b"\x12\x02\x01\x02\x7a\x01a", b"a"),
    "behind bytes that look like the field": (b"\x12\x02\x7a\x00\x7a\x01a", b"a"),
    "behind fixed numbers": (b"\x21" + b"\x7a" * 8 + b"\x2d" + b"\x7a" * 4 + b"\x7a\x01a", b"a"),
    "a length with zeros in front": (b"\x7a\x81\x80\x80\x80\x00a", b"a"),
    "a field 15 that is a number": (b"\x78\x00\x7a\x01a", b"a"),
    "nothing": (b"", None),
    "no field 15": (b"\x08\x0e", None),
    "a field behind it": (b"\x7a\x01a\x08\x0e", None),
    "twice": (b"\x7a\x01a\x7a\x01b", None),
    "twice, the last one empty": (b"\x7a\x01a\x7a\x00", None),
    "cut short": (b"\x7a\x02a", None),
    "without a length": (b"\x7a", None),
    "a length that does not end": (b"\x7a\x81", None),
    "a length of six bytes": (b"\x7a\x81\x80\x80\x80\x80\x00a", None),
    "a length above 2^31 - 1": (b"\x7a\x80\x80\x80\x80\x08a", None),
    "a tag with zeros in front": (b"\xfa\x00\x01a", b"a"),
    "behind a field of a longer tag": (b"\x80\x01\x00\x7a\x01a", b"a"),
    "behind a group": (b"\x23\x24\x7a\x01a", None),
    "inside a group": (b"\x23\x7a\x01a", None),
    "behind a field of the largest tag": (b"\xf8\xff\xff\xff\x0f\x00\x7a\x01a", b"a"),
    "behind a field of a tag above 32 bits": (b"\x88\x80\x80\x80\x10\x00\x7a\x01a", None),
    "a tag above 32 bits": (b"\xfa\x80\x80\x80\x10\x01a", None),
    "behind field 0 of a tag above 32 bits": (b"\x80\x80\x80\x80\x10\x00\x7a\x01a", None),
    "behind field 0": (b"\x00\x00\x7a\x01a", None),
    "behind wire type 6": (b"\x0e\x00\x7a\x01a", None),
    "behind a varint of eleven bytes": (b"\x08" + b"\xff" * 10 + b"\x01\x7a\x01a", None),
    "behind a field that is cut short": (b"\x12\x09\x7a\x01a", None),
}


def test_tensor_payload_is_located_only_as_the_last_field():
    for name, (message, payload) in FORMS.items():
        found = find_payload(message)
        assert payload == (None if found is None else message[found[1] :]), name
        if found is not None:
            assert tensor_pb2.Tensor.FromString(message).data == payload, name
            assert tensor_pb2.Tensor.FromString(message[: found[0]]).data == b"", name


def test_varint_of_each_size_is_read_back():
    for size in range(1, 6):
        for number in {0 if size == 1 else 2 ** (7 * size - 7), 2 ** (7 * size) - 1}:
            assert (len(encode_varint(number)), read_varint(encode_varint(number), 0)) == (size, (number, size))
            for end in range(size):
                assert read_varint(encode_varint(number)[:end], 0)[0] == -1
    assert read_varint(encode_varint(2**35), 0)[0] == read_varint(b"\x80\x80\x80\x80\x80\x00", 0)[0] == -1
    assert [len(encode_varint(SHORT_BYTES - 1)), len(encode_varint(SHORT_BYTES))] == [1, 2]


def test_field_of_any_length_is_encoded_like_the_protobuf_class():
    for length in (1, 2, 127, 128, 129, 2**14 - 1, 2**14):
        assert encode_field(b"\x7a", bytes(length)) == tensor_pb2.Tensor(data=bytes(length)).SerializeToString()
    assert encode_field(b"\x0a", b"") == b"\x0a\x00"


@given(st.integers(0, 2**35 - 1))
def test_varint_encoding_is_minimal_and_round_trips(number: int):
    raw = encode_varint(number)
    assert raw == (tensor_pb2.Interval(min=number).SerializeToString()[1:] or b"\x00")
    assert read_varint(b"\xff" + raw + b"\xff", 1) == (number, 1 + len(raw))


def test_measured_header_size_excludes_the_payload_field():
    inner = b"\x08\x0e" + encode_field(b"\x7a", bytes(1000))
    message = b"\x10\x01" + encode_field(b"\x7a", inner)
    assert measure_header(message, nested=True) == 2 + 3 + 2 + 3
    assert measure_header(message, nested=False) == 2 + 3
    # A group is not skipped, so all of its bytes count.
    assert measure_header(message + b"\x23" + bytes(100)) == 2 + 3 + 2 + 3 + 101


def test_message_header_size_and_field_count_are_limited():
    for field in (b"\x08\x01", b"\x7a\x00"):
        assert measure_header(field * 2048, nested=False) == 4096
        assert measure_header(field * 2049, nested=False) == MAX_HEADER_BYTES + 1
    large = encode_field(b"\x2a", bytes(MAX_HEADER_BYTES - 4))
    assert measure_header(large) == MAX_HEADER_BYTES < measure_header(large + b"\x08\x01")
    assert check_header_size(MAX_HEADER_BYTES) == MAX_HEADER_BYTES
    with pytest.raises(LimitError) as caught:
        check_header_size(MAX_HEADER_BYTES + 1)
    assert caught.value.reason is Reason.HEADER_TOO_LARGE
    assert caught.value.metadata == {"size": str(MAX_HEADER_BYTES + 1), "limit": str(MAX_HEADER_BYTES)}


def test_parse_message_error_names_the_malformed_message():
    assert parse_message(tensor_pb2.Interval, b"\x08\x05").min == 5
    with pytest.raises(InvalidRequestError, match="InferShapeRequest") as caught:
        parse_message(reshape_pb2.InferShapeRequest, b"\x08")
    assert caught.value.reason is Reason.MESSAGE_MALFORMED
