"""The one form of a message whose last field is found without parsing it, and the forms that are left alone."""

import pytest

from tensor_reshape.v1 import tensor_pb2
from tensor_reshape.wire.fields import encode_length, find_payload

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
        assert encode_length(length) == (field[1:] or b"\x00")
