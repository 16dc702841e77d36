"""Finds the tensor bytes in a serialized message without parsing them.

The contract puts the tensor last in its message and the bytes last in the tensor, both as field 15. A message in that
form is a small head and the payload, so the payload can stay where it was received. This module recognizes the form and
nothing else: for any other encoding that protobuf allows it answers None, and the generated class reads the message.
"""

from typing import NamedTuple

PAYLOAD_TAG = b"\x7a"
"""Field 15, length-delimited."""

_TAG = PAYLOAD_TAG[0]
_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5
_MAX_TAG = 0x80  # a longer tag is a field that this contract does not have
_MAX_LENGTH_BYTES = 5
_MAX_LENGTH = 2**31 - 1
_MAX_VARINT_BYTES = 10


class Payload(NamedTuple):
    """Where the last field lies: the head ends at `head_end`, the field's bytes go from `start` to the end."""

    head_end: int
    start: int


def find_payload(message: bytes, begin: int = 0) -> Payload | None:
    """Finds field 15 where it comes once, as the last field, and reaches exactly to the end of `message`.

    Args:
        message: one serialized message, or several nested ones that all end where it ends.
        begin: where the (inner) message begins.
    """
    position, end = begin, len(message)
    while position < end:
        tag = message[position]
        if tag == _TAG:
            start, length = _read_length(message, position + 1)
            return Payload(position, start) if start + length == end else None
        after = _skip_field(message, tag, position + 1)
        if after is None:
            return None
        position = after
    return None


def encode_length(length: int) -> bytes:
    """Returns the varint of `length`."""
    encoded = bytearray()
    while length >= 0x80:  # noqa: PLR2004 - the varint's continuation bit
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def _skip_field(message: bytes, tag: int, position: int) -> int | None:
    wire_type = tag & 7
    if tag >= _MAX_TAG or tag >> 3 == 0:
        return None
    if wire_type == _LENGTH_DELIMITED:
        start, length = _read_length(message, position)
        return start + length if length >= 0 else None
    if wire_type == _VARINT:
        return _skip_varint(message, position)
    return {_FIXED32: position + 4, _FIXED64: position + 8}.get(wire_type)


def _read_length(message: bytes, position: int) -> tuple[int, int]:
    """Returns where the field's bytes start and how many they are; the number is negative where it is not a length."""
    length = 0
    for index, byte in enumerate(message[position : position + _MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the varint's last byte
            return position + index + 1, length if length <= _MAX_LENGTH else -(2**63)
    return position, -(2**63)


def _skip_varint(message: bytes, position: int) -> int | None:
    for index, byte in enumerate(message[position : position + _MAX_VARINT_BYTES]):
        if byte < 0x80:  # noqa: PLR2004 - the varint's last byte
            return position + index + 1
    return None
