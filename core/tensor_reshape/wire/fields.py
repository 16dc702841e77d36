"""Reads and writes single protobuf fields in serialized messages.

If a message contains a tensor, the tensor is the last field and has the field number 15. In a tensor message, the bytes
of the elements are the last field and also have the field number 15. The bytes of the elements are called the payload.
A message therefore consists of a small header, followed by the payload, and the payload need not be copied.

Invariants:

- The function `find_payload` recognizes only messages of this form. For any other encoding, `find_payload` returns
  None, and the caller uses the generated class.
- The function `measure_header` runs before a message is parsed, because a generated class uses up to 40 bytes of memory
  for each byte of a header.
- `find_payload` and `measure_header` read each field only once, and stop after a few thousand fields.
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES

AnyMessage = TypeVar("AnyMessage", bound=Message)

PAYLOAD_TAG = b"\x7a"
"""The tag of field 15, which is length-delimited."""

SHORT_BYTES = 128
"""A length below this number is encoded in one byte."""

_TAG = PAYLOAD_TAG[0]
# These numbers are the wire types of protobuf fields. The missing types 3 and 4 are groups, which this project does not
# use.
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED32: 4, _FIXED64: 8}
_CONTINUATION = 0x80  # this bit of a byte is set if another byte of the varint follows
_MAX_NUMBER_BYTES = 5  # the longest tag or length has this many bytes, and all protobuf parsers reject longer ones
_MIN_TAG, _MAX_TAG = 1 << 3, 2**32 - 1  # these are the tags of the field numbers 1 and 2^29 - 1
_MAX_VARINT_BYTES = 10
_FIELD_BYTES = 32  # a message may have one field for each 32 bytes, because reading a field takes time
_MAX_FIELDS = MAX_HEADER_BYTES // _FIELD_BYTES


_Field = tuple[int, int, int]
"""The tag of a field, the position of its content, and the position of the next field."""


def find_payload(
    message: bytes, begin: int = 0, fields: int = 0, *, within: int = MAX_HEADER_BYTES
) -> tuple[int, int, int] | None:
    """Finds field 15 if it occurs once, is the last field, and ends exactly at the end of `message`.

    Args:
        message: a serialized message, which may contain a nested message that ends at the same position.
        begin: the position at which the message, or the nested message, begins.
        fields: the number of fields that were already read before `begin`. These fields also count towards the limit.
        within: the number of bytes after `begin` in which field 15 must begin. One field is allowed for each 32 bytes.

    Returns:
        A tuple of the end of the header, the start of the field's content, and the number of fields that were read. The
        result is None if the message has another form.
    """
    position = begin
    while position < min(len(message), begin + within):
        field = read_field(message, position)
        fields += 1
        if field is None or fields * _FIELD_BYTES > within:
            return None
        tag, start, end = field
        # If the payload field (number 15) does not reach the end of the message, another field 15 may follow it, and a
        # parser would use the later one.
        if tag == _TAG:
            return (position, start, fields) if end == len(message) else None
        position = end
    return None


def measure_header(message: bytes, *, nested: bool = True) -> int:
    """Returns the number of bytes of `message` that do not belong to its payload.

    Without `nested`, the payload is the content of field 15. With `nested`, field 15 is a tensor, and the payload is
    the content of field 15 of this tensor. If bytes cannot be read as fields, they also count as header. If there are
    more than 2048 fields, the result exceeds `MAX_HEADER_BYTES`. Counting stops above `MAX_HEADER_BYTES`, so the
    function is fast for any message.
    """
    header, fields = _measure(message, 0, len(message), nested=nested)
    return header if fields <= _MAX_FIELDS else MAX_HEADER_BYTES + 1


def check_header_size(size: int) -> int:
    """Returns `size` if a header may have this number of bytes.

    The header is the part of a message that does not belong to the elements of its tensor.

    Raises:
        LimitError: the reason is HEADER_TOO_LARGE.
    """
    if size > MAX_HEADER_BYTES:
        text = (
            f"the message has {size} or more bytes, not counting those of its tensor; "
            f"at most {MAX_HEADER_BYTES} are allowed"
        )
        raise LimitError.of(Reason.HEADER_TOO_LARGE, text, size=size, limit=MAX_HEADER_BYTES)
    return size


def parse_message(kind: type[AnyMessage], raw: bytes) -> AnyMessage:
    """Parses a message with its generated class.

    Raises:
        InvalidRequestError: the reason is MESSAGE_MALFORMED.
    """
    try:
        return kind.FromString(raw)
    except DecodeError:
        text = f"the message is not a {kind.DESCRIPTOR.full_name}"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text) from None


def encode_varint(number: int) -> bytes:
    """Encodes a number that is not negative as a varint: seven bits in each byte, the lowest bits first."""
    encoded = bytearray()
    while number >= _CONTINUATION:
        encoded.append(number & 0x7F | _CONTINUATION)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


# This table is three times as fast as the loop in `encode_varint`.
_SHORT_LENGTHS = [encode_varint(length) for length in range(SHORT_BYTES)]


def encode_field(tag: bytes, content: bytes) -> bytes:
    """Returns an encoded field whose content is bytes or a message."""
    length = len(content)
    return b"".join((tag, _SHORT_LENGTHS[length] if length < SHORT_BYTES else encode_varint(length), content))


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Returns the number that a varint encodes, and the position after it.

    The returned number is -1 if the varint is incomplete or has more than 5 bytes.
    """
    byte = message[position] if position < len(message) else _CONTINUATION
    if byte < _CONTINUATION:  # most varints have only one byte
        return byte, position + 1
    number = 0
    for index, byte in enumerate(message[position : position + _MAX_NUMBER_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < _CONTINUATION:
            return number, position + index + 1
    return -1, position


def read_field(message: bytes, position: int) -> _Field | None:
    """Returns the field at `position`, or None if the field is a group or is invalid.

    If the message is incomplete, the returned field may end after the end of the message.
    """
    tag, start = read_varint(message, position)
    wire_type = tag & 7
    if not _MIN_TAG <= tag <= _MAX_TAG:
        return None
    if wire_type == _LENGTH_DELIMITED:
        length, start = read_varint(message, start)
        return None if length < 0 else (tag, start, start + length)
    if wire_type == _VARINT:
        end = _skip_varint(message, start)
        return None if end is None else (tag, start, end)
    size = _FIXED_BYTES.get(wire_type)
    return None if size is None else (tag, start, start + size)


def _measure(message: bytes, begin: int, end: int, *, nested: bool) -> tuple[int, int]:
    """Returns the number of bytes that do not belong to the payload, and the number of fields that were read."""
    position, header, fields = begin, 0, 0
    while position < end and header <= MAX_HEADER_BYTES and fields <= _MAX_FIELDS:
        field = read_field(message, position)
        fields += 1
        if field is None or field[2] > end:
            return header + end - position, fields
        tag, start, after = field
        if tag == _TAG:
            inner, more = _measure(message, start, after, nested=False) if nested else (0, 0)
            header += start - position + inner
            fields += more
        else:
            header += after - position
        position = after
    return header, fields


def _skip_varint(message: bytes, position: int) -> int | None:
    for index, byte in enumerate(message[position : position + _MAX_VARINT_BYTES]):
        if byte < _CONTINUATION:
            return position + index + 1
    return None
