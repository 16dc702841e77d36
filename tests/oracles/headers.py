"""Oracle for the size of a message's header, with a regular expression for a field."""

import re

from tensor_reshape.rules.limits import MAX_HEADER_BYTES

# A field, as the limit counts them: a tag and a length have at most five bytes, and a number has at most ten. The wire
# type determines the content after the tag.
_SHORT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_TAG = re.compile(_SHORT)
_LENGTH = re.compile(_SHORT)
_NUMBER = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
_PATTERNS = {0: _NUMBER, 1: re.compile(rb".{8}", re.DOTALL), 2: _LENGTH, 5: re.compile(rb".{4}", re.DOTALL)}
PAYLOAD_FIELD = 15
"""The tag of the bytes in a tensor, and of the tensor in a request. Both are always written last."""

_MAX_LENGTH = 2**31 - 1
_MAX_FIELDS = 2048


def measure_header(message: bytes, *, nested: bool) -> int:
    """Returns the number of bytes of a message, except the contents of its fields 15 (`nested`: of fields 15 in those).

    From the first byte that does not begin a field, all bytes count. With too many fields, the result exceeds the
    limit.
    """
    free, fields = _measure(message, nested=nested)
    return MAX_HEADER_BYTES + 1 if fields > _MAX_FIELDS else len(message) - free


def measure_besides(message: bytes, number: int) -> tuple[int, int, bool]:
    """Returns the bytes outside the fields of this number, the number of fields, and whether a field ends the message.

    From the first byte that does not begin a field, no byte counts, and the message does not end with a field.
    """
    size, position, fields = 0, 0, 0
    while match := _match_field(message, position):
        fields += 1
        size += 0 if match[0] == number else match[2] - position
        position = match[2]
    return size, fields, position == len(message)


def find_payload(message: bytes, begin: int, fields: int, within: int) -> tuple[int, int, int] | None:
    """Returns the begin of the first field 15, the begin of its content, and the number of fields up to it.

    The result is None unless the field ends the message, begins within this number of bytes after `begin`, and is one
    of at most `within` / 32 fields.
    """
    position = begin
    while position < begin + within and (match := _match_field(message, position)):
        number, start, end = match
        fields += 1
        if number == PAYLOAD_FIELD:
            return (position, start, fields) if end == len(message) and fields <= within // 32 else None
        position = end
    return None


def _measure(message: bytes, *, nested: bool) -> tuple[int, int]:
    """Returns the number of bytes that do not count, and the number of fields."""
    free, position, fields = 0, 0, 0
    while match := _match_field(message, position):
        number, start, end = match
        fields += 1
        if number == PAYLOAD_FIELD:
            inner, more = _measure(message[start:end], nested=False) if nested else (end - start, 0)
            free += inner
            fields += more
        position = end
    return free, fields + (position < len(message))  # the rest that does not begin a field counts as the last field


def _match_field(message: bytes, position: int) -> tuple[int, int, int] | None:
    """Returns the number of the field at `position` (0 if it has no content to skip), and where its content is."""
    tag = _TAG.match(message, position)
    pattern = tag and _PATTERNS.get(tag[0][0] & 7)
    if not tag or not pattern or not 8 <= _read(tag[0]) < 2**32:
        return None
    content = pattern.match(message, tag.end())
    if not content:
        return None
    if pattern is not _LENGTH:
        return 0, content.start(), content.end()
    length = _read(content[0])
    end = content.end() + length
    return (_read(tag[0]) >> 3, content.end(), end) if length <= _MAX_LENGTH and end <= len(message) else None


def _read(varint: bytes) -> int:
    number = 0
    for byte in reversed(varint):
        number = number << 7 | byte & 127
    return number
