"""An encoder that uses every freedom of the protobuf encoding, and that also writes almost valid messages."""

from random import Random

VARINT, FIXED64, LENGTH_DELIMITED, START_GROUP, END_GROUP, FIXED32 = range(6)
INTEGERS = (0, 1, 2, 3, 6, 127, 128, 2**14, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
_NUMBERS = (1, 2, 3, 4, 15, 15, *range(1, 20), 100, 2**14, 2**29 - 1)
_HUGE = (2**14, 2**21, 2**28, 2**31 - 1, 2**31, 2**32, 2**35 - 1, 2**63, 2**64 - 1)
_BYTES = bytes.fromhex("00010207080a0f10121a203a78797a7b7c7d7f80fafbff")
_TAILS = (b"\x00", b"\x7a", b"\x7a\x00", b"\x08\x01", b"\x10\x01", b"\x7a\x02\x7a\x00", b"\xfa\x00\x00", b"\x23\x24")
# The maxima of parsers are 5 bytes for a length and 10 for a 64-bit number; 11 is one more.
_VARINT_SIZES = (2, 2, 2, 3, 3, 4, 5, 5, 5, 6, 9, 10, 11)
# Depths of groups. protobuf's parsers accept 100.
_DEPTHS = (*[1] * 12, 2, 3, 97, 98, 99, 100, 101)


def encode_varint(number: int) -> bytes:
    """Returns the shortest varint of a number from 0 to 2^64 - 1."""
    if number < 128:
        return bytes((number,))
    encoded = bytearray()
    while number >= 128:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def lengthen(varint: bytes, size: int) -> bytes:
    """Returns the same number in `size` bytes, if it fits in fewer."""
    missing = size - len(varint)
    if missing <= 0:
        return varint
    return varint[:-1] + bytes([varint[-1] | 128, *[128] * (missing - 1), 0])


def zigzag(number: int) -> int:
    """Returns the number that a varint of the type sint64 has for the lowest 64 bits of a number."""
    low = number % 2**64
    return low * 2 if low < 2**63 else (2**64 - low) * 2 - 1


class Encoder:
    """Writes fields. The number of unusual encodings is decided once for a message.

    Attributes:
        random: the source of all decisions.
        liberty: the probability of each unusual encoding; 0 writes as every generated class does.
    """

    def __init__(self, random: Random, liberty: float) -> None:
        """Decides with `random`; a higher `liberty` gives more unusual encodings."""
        self.random = random
        self.liberty = liberty

    def deviates(self, share: float = 1.0) -> bool:
        """Decides whether to use an unusual encoding."""
        return self.liberty > 0 and self.random.random() < self.liberty * share

    def varint(self, number: int) -> bytes:
        """Writes a number, sometimes with leading zeros, and sometimes with more of them than some parsers accept."""
        encoded = encode_varint(number)
        return lengthen(encoded, self.random.choice(_VARINT_SIZES)) if self.deviates(0.1) else encoded

    def tag(self, number: int, wire_type: int) -> bytes:
        """Writes a tag. A tag of one byte is sometimes written as two bytes."""
        encoded = encode_varint(number << 3 | wire_type)
        if not self.deviates(0.1):
            return encoded
        if self.random.random() < 0.2:
            return encode_varint(1 << self.random.choice((32, 32, 33, 34, 35, 63)) | number << 3 | wire_type)
        return lengthen(encoded, self.random.choice((2, 2, 2, 3, 3, 4, 5, 5, 6, 10)))

    def field(self, number: int, content: bytes) -> bytes:
        """Writes a field of bytes, sometimes with a wrong length."""
        length = len(content)
        if self.deviates(0.015):
            length = self.random.choice((max(length - 1, 0), length + 1, length + 2, *_HUGE))
        return self.tag(number, LENGTH_DELIMITED) + self.varint(length) + content

    def number(self, number: int, value: int) -> bytes:
        """Writes a numeric field. A negative number is written as its two's complement."""
        return self.tag(number, VARINT) + self.varint(value % 2**64)

    def numbers(self, number: int, values: list[int]) -> list[bytes]:
        """Writes a repeated number in any number of fields: packed, not packed, or both."""
        if not self.deviates():
            packed = b"".join([encode_varint(value % 2**64) for value in values])
            return [self.field(number, packed)] if values else []
        cut = self.random.randint(0, len(values))
        packed = b"".join([self.varint(value % 2**64) for value in values[cut:]])
        return [*[self.number(number, value) for value in values[:cut]], self.field(number, packed)]

    def unknown(self) -> bytes:
        """Writes any field of any wire type, including known fields of a wrong type and invalid wire types."""
        number, wire_type = self.random.choice(_NUMBERS), self.random.choice((0, 0, 1, 2, 3, 5))
        if self.random.random() < 0.03:
            number, wire_type = self.random.choice((0, number)), self.random.choice((wire_type, 4, 6, 7))
        if wire_type == START_GROUP:
            return self.group(number)
        tag = self.tag(number, wire_type)
        if wire_type == VARINT:
            return tag + self.varint(self.random.choice(INTEGERS))
        if wire_type == LENGTH_DELIMITED:
            content = self.random.choice((b"", b"\x7a\x01\x00", b"\x08\x0e", b"\x7a\x00", b"\x01" * 40))
            return tag + self.varint(len(content)) + content
        return tag + self.random.choice(_BYTES).to_bytes(1, "big") * {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)

    def group(self, number: int) -> bytes:
        """Writes nested groups, mostly with the right end tags."""
        depth = self.random.choice(_DEPTHS)
        start, end = encode_varint(number << 3 | START_GROUP), encode_varint(number << 3 | END_GROUP)
        content = self.random.choice((b"", b"\x7a\x01\x00", b"\x7a\x00", b"\x08\x01"))
        last = end if self.random.random() < 0.95 else self.random.choice((b"", b"\x0c", b"\x7c", start))
        return start * depth + content + end * (depth - 1) + last

    def join(self, fields: list[bytes]) -> bytes:
        """Joins fields in the given or any order, some twice, some never, with unknown fields between them."""
        if self.liberty == 0:
            return b"".join(fields)
        fields = list(fields)
        while self.deviates(0.8) and len(fields) < 20:
            fields.insert(self.random.randint(0, len(fields)), self.unknown())
        if fields and self.deviates(0.5):
            fields.insert(self.random.randint(0, len(fields)), self.random.choice(fields))
        if self.deviates():
            self.random.shuffle(fields)
        if fields and self.deviates(0.2):
            fields.pop(self.random.randrange(len(fields)))
        return b"".join(fields)

    def message(self, number: int, fields: list[bytes]) -> list[bytes]:
        """Writes a message in one field, or in several fields that a parser merges."""
        if not self.deviates(0.5):
            return [self.field(number, self.join(fields))]
        cut = self.random.randint(0, len(fields))
        return [self.field(number, self.join(fields[:cut])), *self.message(number, fields[cut:])]


def mutate(random: Random, raw: bytes) -> bytes:
    """Changes the bytes at one index, mostly near the beginning, where the header is."""
    at = random.randint(0, min(len(raw), 48)) if random.random() < 0.8 else random.randint(0, len(raw))
    kind = random.randrange(8)
    if kind < 5:
        return _cut(random, raw, at, kind)
    if kind == 5 or at == len(raw):
        return raw[:at] + raw[random.randint(0, at) :]
    byte = raw[at] ^ 1 << random.randrange(8) if kind == 6 else (raw[at] + random.choice((-2, -1, 1, 2))) % 256
    return raw[:at] + bytes((byte,)) + raw[at + 1 :]


def _cut(random: Random, raw: bytes, at: int, kind: int) -> bytes:
    """Removes bytes, or adds some."""
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[: max(len(raw) - random.randint(1, 9), 0)]
    if kind == 2:
        return raw + random.choice(_TAILS)
    if kind == 3:
        return raw[:at] + bytes((random.choice(_BYTES),)) + raw[at:]
    return raw[:at] + raw[at + random.randint(1, 4) :]
