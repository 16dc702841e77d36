"""Oracle for varints that every protobuf reader accepts.

protobufjs 6 and 7 read at most 5 bytes of a 32-bit number or a length, and continue at a wrong position after longer
ones. C++ and Python read at most 5 bytes of a tag or a length. protobuf-java reads any 64-bit number of 10 bytes as
negative. All readers accept 64-bit numbers of up to 9 bytes.
"""

from collections.abc import Iterator
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_LONG = frozenset({FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_SINT64})
_MAX_LONG_BYTES, _MAX_LENGTH_BYTES = 9, 5


def find_unreadable(kind: type[Message], raw: bytes) -> list[str]:
    """Returns the parts of `raw`, a message of `kind`, that some parser would misread, each with its position."""
    descriptor = cast("Descriptor", kind.DESCRIPTOR)
    return list(_walk(descriptor, raw, descriptor.name))


def _walk(kind: Descriptor, raw: bytes, path: str) -> Iterator[str]:
    position = 0
    while position < len(raw):
        tag, size = _read(raw, position)
        field = kind.fields_by_number.get(tag >> 3)
        if field is None or size != _measure(tag):
            yield f"{path}: {raw[position : position + size].hex()} is not the tag of a field"
            return
        start = position + size
        position, findings = _walk_field(field, tag & 7, raw, start)
        yield from (f"{path}.{finding}" for finding in findings)
    if position != len(raw):
        yield f"{path}: its last field ends {position - len(raw)} bytes behind it"


def _walk_field(field: FieldDescriptor, wire_type: int, raw: bytes, start: int) -> tuple[int, list[str]]:
    """Returns the end of the field whose content begins here, and what is wrong with it."""
    if wire_type in _FIXED_BYTES:
        return start + _FIXED_BYTES[wire_type], []
    number, size = _read(raw, start)
    if wire_type == _VARINT:
        return start + size, list(_check_number(field, number, size))
    assert wire_type == _LENGTH_DELIMITED, f"{field.name} is of wire type {wire_type}"
    content = raw[start + size : start + size + number]
    findings = [f"{field.name}: a length takes {size} bytes"] if size > _MAX_LENGTH_BYTES else []
    return start + size + number, [*findings, *_walk_content(field, content)]


def _walk_content(field: FieldDescriptor, content: bytes) -> Iterator[str]:
    if field.message_type is not None:
        yield from _walk(field.message_type, content, field.name)
    elif field.type not in {FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING}:
        position = 0
        while position < len(content):  # packed
            number, size = _read(content, position)
            yield from _check_number(field, number, size)
            position += size


def _check_number(field: FieldDescriptor, number: int, size: int) -> Iterator[str]:
    if size != _measure(number) and (field.type not in _LONG or size > _MAX_LONG_BYTES):
        yield f"{field.name}: {number} takes {size} bytes"


def _read(raw: bytes, position: int) -> tuple[int, int]:
    """Returns a number and the number of its bytes."""
    number = 0
    for size, byte in enumerate(raw[position:], 1):
        number |= (byte & 127) << 7 * (size - 1)
        if byte < 128:
            return number, size
    message = f"a number at {position} of {raw.hex()} does not end"
    raise AssertionError(message)


def _measure(number: int) -> int:
    """Returns the number of bytes of the shortest encoding of a number."""
    return max(-(-number.bit_length() // 7), 1)
