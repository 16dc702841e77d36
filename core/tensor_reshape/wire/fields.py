"""Fields of serialized messages: found, measured and written without the generated classes, and parsed with them.

The contract puts the tensor last in its message and the bytes last in the tensor, both as field 15. A message in that
form is a small header and the payload, so the payload can stay where it was received.

Laws:

- `find_payload` recognizes that form and nothing else. For any other encoding that protobuf allows it returns None, and
  the generated class reads the message: what is odd is never decided here.
- `measure_header` tells beforehand what parsing would cost: a generated class makes up to forty bytes out of one.
- To find and to measure take one look at each field, and no more than a few thousand fields are looked at.
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.limits import MAX_HEADER_BYTES

AnyMessage = TypeVar("AnyMessage", bound=Message)

PAYLOAD_TAG = b"\x7a"
"""Field 15, length-delimited."""

SHORT_BYTES = 128
"""A length below this takes one byte."""

_TAG = PAYLOAD_TAG[0]
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5  # the wire types; 3 and 4 are groups, which are not read
_FIXED_BYTES = {_FIXED32: 4, _FIXED64: 8}
_CONTINUATION = 0x80  # the bit that says that another byte of the varint follows
_MAX_NUMBER_BYTES = 5  # of a tag or a length, which have 32 bits: every parser in use refuses longer ones
_MIN_TAG, _MAX_TAG = 1 << 3, 2**32 - 1  # of the fields 1 and 2^29 - 1
_MAX_LENGTH = 2**31 - 1
_MAX_VARINT_BYTES = 10
_FIELD_BYTES = 32  # a header has no more fields than one for each so many bytes that it may have: each takes a while
_MAX_FIELDS = MAX_HEADER_BYTES // _FIELD_BYTES


_Field = tuple[int, int, int]
"""One field: its tag, where its content starts, and where the next field does."""


def find_payload(
    message: bytes, begin: int = 0, fields: int = 0, *, within: int = MAX_HEADER_BYTES
) -> tuple[int, int, int] | None:
    """Finds field 15 where it comes once, as the last field, and reaches exactly to the end of `message`.

    Args:
        message: one serialized message, or several nested ones that all end where it ends.
        begin: where the (inner) message begins.
        fields: how many fields were read before it, which count too.
        within: how many bytes from there the field may begin at most; of fields, one for each 32 of these bytes.

    Returns:
        Where the header ends, where the field's bytes start, which go on to the end, and how many fields have been
        read.
    """
    position = begin
    while position < min(len(message), begin + within):
        field = read_field(message, position)
        fields += 1
        if field is None or fields * _FIELD_BYTES > within:
            return None
        tag, start, end = field
        # What ends early is followed by another field, maybe another 15, of which the parser takes the last.
        if tag == _TAG:
            return (position, start, fields) if end == len(message) else None
        position = end
    return None


def measure_header(message: bytes, *, nested: bool = True) -> int:
    """Returns how many bytes of `message` are not the content of field 15 (`nested`: of field 15 within field 15).

    What is not understood counts in full; more than 2048 fields count as too many bytes. Counting stops above
    `MAX_HEADER_BYTES`, so it is cheap for any message.
    """
    header, fields = _measure(message, 0, len(message), nested=nested)
    return header if fields <= _MAX_FIELDS else MAX_HEADER_BYTES + 1


def check_header_size(size: int) -> int:
    """Returns `size`, the bytes that a message has besides its tensor's, where they are admitted.

    Raises:
        LimitError: HEADER_TOO_LARGE.
    """
    if size > MAX_HEADER_BYTES:
        text = (
            f"the message has {size} or more bytes in addition to its tensor's; at most {MAX_HEADER_BYTES} are allowed"
        )
        raise LimitError.of(Reason.HEADER_TOO_LARGE, text, size=size, limit=MAX_HEADER_BYTES)
    return size


def parse_message(kind: type[AnyMessage], raw: bytes) -> AnyMessage:
    """Returns the message that `raw` is.

    Raises:
        InvalidRequestError: MESSAGE_MALFORMED.
    """
    try:
        return kind.FromString(raw)
    except DecodeError:
        text = f"the message is not a {kind.DESCRIPTOR.full_name}"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text) from None


def encode_varint(number: int) -> bytes:
    """Returns the varint of `number`, which is not negative: seven bits a byte, the lowest first."""
    encoded = bytearray()
    while number >= _CONTINUATION:
        encoded.append(number & 0x7F | _CONTINUATION)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_SHORT_LENGTHS = [encode_varint(length) for length in range(SHORT_BYTES)]  # a look-up is a third of the loop


def encode_field(tag: bytes, content: bytes) -> bytes:
    """Returns a field of bytes, which may be a message."""
    length = len(content)
    return b"".join((tag, _SHORT_LENGTHS[length] if length < SHORT_BYTES else encode_varint(length), content))


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Returns a number of at most 35 bits and where it ends; it is negative where it takes more than 5 bytes."""
    byte = message[position] if position < len(message) else _CONTINUATION
    if byte < _CONTINUATION:  # most are so short
        return byte, position + 1
    number = 0
    for index, byte in enumerate(message[position : position + _MAX_NUMBER_BYTES]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < _CONTINUATION:
            return number, position + index + 1
    return -1, position


def read_field(message: bytes, position: int) -> _Field | None:
    """Reads the field at `position`; None where it is a group, or no field at all."""
    tag, start = read_varint(message, position)
    wire_type = tag & 7
    if not _MIN_TAG <= tag <= _MAX_TAG:
        return None
    if wire_type == _LENGTH_DELIMITED:
        length, start = read_varint(message, start)
        return (tag, start, start + length) if 0 <= length <= _MAX_LENGTH else None
    if wire_type == _VARINT:
        end = _skip_varint(message, start)
        return None if end is None else (tag, start, end)
    size = _FIXED_BYTES.get(wire_type)
    return None if size is None else (tag, start, start + size)


def _measure(message: bytes, begin: int, end: int, *, nested: bool) -> tuple[int, int]:
    """Returns how many bytes are no content of field 15, and how many fields have been read."""
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
