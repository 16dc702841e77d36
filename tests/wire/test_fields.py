"""Fields of a message: the one form that is found unparsed, what a message costs to parse, how a field is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.v1 import reshape_pb2, tensor_pb2
from tensor_reshape.wire.fields import (
    check_header_size,
    encode_field,
    encode_varint,
    find_payload,
    measure_header,
    parse_message,
    read_field,
    read_varint,
)

# Encodings of a tensor message whose bytes are its last field, and of some where they are not; the bytes in it.
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


@pytest.mark.parametrize(("message", "payload"), FORMS.values(), ids=FORMS.keys())
def test_field_15_is_found_where_it_is_the_whole_rest_of_the_message(message: bytes, payload: bytes | None):
    found = find_payload(message)
    assert payload == (None if found is None else message[found[1] :])


@pytest.mark.parametrize(
    ("message", "payload"), [form for form in FORMS.values() if form[1] is not None], ids=lambda form: form.hex()
)
def test_what_is_found_is_what_the_generated_class_reads(message: bytes, payload: bytes):
    found = find_payload(message)
    assert found is not None
    assert tensor_pb2.Tensor.FromString(message).data == payload
    assert tensor_pb2.Tensor.FromString(message[: found[0]]).data == b""


def test_a_length_is_written_as_the_shortest_varint():
    for length in [0, 1, 127, 128, 16383, 16384, 2**31 - 1]:
        field = tensor_pb2.Dim(value=length).SerializeToString()
        assert encode_varint(length) == (field[1:] or b"\x00")


@given(st.integers(0, 2**35 - 1))
def test_a_number_is_read_as_it_was_written(number: int):
    raw = encode_varint(number)
    assert read_varint(b"\xff" + raw + b"\xff", 1) == (number, 1 + len(raw))


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\x80" * 5 + b"\x00"], ids=bytes.hex)
def test_a_number_that_does_not_end_in_five_bytes_is_none(raw: bytes):
    assert read_varint(raw, 0)[0] < 0


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16384])
def test_a_field_is_what_the_generated_class_writes(size: int):
    content = bytes(size)
    message = tensor_pb2.Tensor.FromString(encode_field(b"\x7a", content))
    assert message.data == content
    assert message.SerializeToString() == (encode_field(b"\x7a", content) if size else b"")


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (b"\x08\x96\x01", (0x08, 1, 3)),
        (b"\x12\x02ab", (0x12, 2, 4)),
        (b"\x21" + bytes(8), (0x21, 1, 9)),
        (b"\x2d" + bytes(4), (0x2D, 1, 5)),
        (b"\x23\x24", None),
        (b"\x00\x00", None),
        (b"", None),
    ],
    ids=["a number", "bytes", "eight bytes", "four bytes", "a group", "field 0", "nothing"],
)
def test_a_field_is_read_without_its_content(raw: bytes, field: tuple[int, int, int] | None):
    assert read_field(raw, 0) == field


INNER = b"\x08\x0e" + encode_field(b"\x7a", bytes(1000))
MESSAGE = b"\x10\x01" + encode_field(b"\x7a", INNER)


@pytest.mark.parametrize(("nested", "size"), [(True, 2 + 3 + 2 + 3), (False, 2 + 3)])
def test_what_is_no_content_of_field_15_is_the_header(nested: bool, size: int):
    assert measure_header(MESSAGE, nested=nested) == size


def test_what_is_not_understood_counts_in_full():
    assert measure_header(MESSAGE + b"\x23" + bytes(100)) == 2 + 3 + 2 + 3 + 101


@pytest.mark.parametrize(("fields", "admitted"), [(2048, True), (2049, False)])
def test_more_than_2048_fields_are_too_many_bytes(fields: int, admitted: bool):
    assert (measure_header(b"\x08\x01" * fields) <= MAX_HEADER_BYTES) == admitted


def test_a_header_of_the_largest_size_is_admitted():
    assert check_header_size(MAX_HEADER_BYTES) == MAX_HEADER_BYTES


def test_a_header_of_one_byte_more_is_a_limit():
    with pytest.raises(LimitError) as caught:
        check_header_size(MAX_HEADER_BYTES + 1)
    assert caught.value.reason is Reason.HEAD_TOO_LARGE


def test_a_message_is_parsed():
    assert parse_message(tensor_pb2.Dim, b"\x08\x05").value == 5


def test_what_cannot_be_parsed_is_malformed_and_the_refusal_names_the_message():
    with pytest.raises(InvalidRequestError, match="InferShapeRequest") as caught:
        parse_message(reshape_pb2.InferShapeRequest, b"\x08")
    assert caught.value.reason is Reason.MESSAGE_MALFORMED
