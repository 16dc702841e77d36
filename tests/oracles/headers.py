"""Oracle for the size of a message's header, with a regular expression for a field."""

import re

from tensor_reshape.rules.limits import MAX_HEADER_BYTES

# What the contract counts as a field: a tag and a length of at most five bytes, a number of at most ten. What follows
# the tag is looked at by its wire type.
_SHORT = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_TAG = re.compile(_SHORT)
_LENGTH = re.compile(_SHORT)
_NUMBER = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")
_PATTERNS = {0: _NUMBER, 1: re.compile(rb".{8}", re.DOTALL), 2: _LENGTH, 5: re.compile(rb".{4}", re.DOTALL)}
PAYLOAD_FIELD = 15
"""Of the bytes of a tensor in its message, and of the tensor in a request: always the last one to be written."""

_MAX_LENGTH = 2**31 - 1
_MAX_FIELDS = 2048


def measure_header(message: bytes, *, nested: bool) -> int:
    """Returns how many bytes of a message are not the content of its fields 15 (`nested`: of fields 15 in those).

    From a byte on that begins no field, all count. With too many fields, it is more than a header may be.
    """
    free, fields = _measure(message, nested=nested)
    return MAX_HEADER_BYTES + 1 if fields > _MAX_FIELDS else len(message) - free


def measure_besides(message: bytes, number: int) -> tuple[int, int, bool]:
    """Returns how many bytes a message has besides its fields of that number, how many fields, and whether it ends so.

    Nothing counts from a byte on that begins no field: then it does not end with a field.
    """
    size, position, fields = 0, 0, 0
    while match := _match_field(message, position):
        fields += 1
        size += 0 if match[0] == number else match[2] - position
        position = match[2]
    return size, fields, position == len(message)


def _measure(message: bytes, *, nested: bool) -> tuple[int, int]:
    """Returns how many bytes count for nothing, and how many fields there are."""
    free, position, fields = 0, 0, 0
    while match := _match_field(message, position):
        number, start, end = match
        fields += 1
        if number == PAYLOAD_FIELD:
            inner, more = _measure(message[start:end], nested=False) if nested else (end - start, 0)
            free += inner
            fields += more
        position = end
    return free, fields + (position < len(message))  # what begins no field is counted as the last one


def _match_field(message: bytes, position: int) -> tuple[int, int, int] | None:
    """Returns the number of the field at `position` (0 where it has no content to skip), and where its content is."""
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
