"""Encodings of a message, with every liberty that protobuf leaves a peer, taken at random; and broken ones."""

from random import Random

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.wire import fields

VARINT, FIXED64, LENGTH_DELIMITED, START_GROUP, END_GROUP, FIXED32 = range(6)
NUMBERS = [*range(1, 20), 100, 2**14, 2**29 - 1]
INTEGERS = [0, 1, 2, 3, 127, 128, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
BYTES = [
    0x00,
    0x01,
    0x07,
    0x08,
    0x0A,
    0x0F,
    0x10,
    0x12,
    0x3A,
    0x78,
    0x79,
    0x7A,
    0x7B,
    0x7C,
    0x7D,
    0x7F,
    0x80,
    0xFA,
    0xFF,
]


def encode_varint(random: Random, number: int, *, odd: float = 0.005) -> bytes:
    """Returns the shortest varint, or now and then one with zeros in front that is too long for some readers."""
    encoded = fields.encode_varint(number)
    if random.random() >= odd:
        return encoded
    wanted = random.choice([5, 5, 6, 9, 10, 10, 11])
    if len(encoded) >= wanted:
        return encoded
    return encoded[:-1] + bytes([encoded[-1] | 0x80]) + b"\x80" * (wanted - len(encoded) - 1) + b"\x00"


def encode_field(random: Random, number: int, content: bytes) -> bytes:
    tag, length = number << 3 | LENGTH_DELIMITED, len(content)
    return encode_varint(random, tag) + encode_varint(random, length, odd=0.02) + content


def encode_number(random: Random, number: int, value: int) -> bytes:
    return encode_varint(random, number << 3 | VARINT) + encode_varint(random, value, odd=0.02)


def encode_numbers(random: Random, number: int, values: list[int]) -> bytes:
    """Packed, unpacked, or both."""
    cut = random.choice([0, 0, len(values), random.randint(0, len(values))])
    packed = b"".join(encode_varint(random, value) for value in values[cut:])
    unpacked = b"".join(encode_number(random, number, value) for value in values[:cut])
    return unpacked + (encode_field(random, number, packed) if packed or random.random() < 0.1 else b"")


def encode_unknown(random: Random) -> bytes:
    """Any field of any wire type, also a known one of another type, a group, and what protobuf does not admit."""
    number = random.choice([*NUMBERS, 15, 15, 0] if random.random() < 0.1 else NUMBERS)
    wire_type = random.choice([VARINT, VARINT, FIXED64, LENGTH_DELIMITED, START_GROUP, FIXED32])
    if random.random() < 0.02:
        wire_type = random.choice([END_GROUP, 6, 7])
    tag = encode_varint(random, number << 3 | wire_type)
    if wire_type == VARINT:
        return tag + encode_varint(random, random.choice(INTEGERS), odd=0.1)
    if wire_type == LENGTH_DELIMITED:
        return tag + encode_varint(random, 3) + b"\x7a\x01\x00"
    if wire_type == START_GROUP:
        depth = random.choice([1, 2, 3] if random.random() < 0.8 else [97, 98, 99, 100, 101])
        end = encode_varint(random, number << 3 | END_GROUP) if random.random() < 0.97 else b"\x0c"
        return tag * depth + b"\x7a\x01\x00" + end * depth
    return tag + bytes(8 if wire_type == FIXED64 else 4)


def join_fields(random: Random, fields: list[bytes]) -> bytes:
    """Joins the fields, mostly in their order; some come twice, some never, some are unknown."""
    if random.random() < 0.3:
        for _ in range(random.randint(0, 2)):
            fields.insert(random.randint(0, len(fields)), encode_unknown(random))
    if random.random() < 0.2:
        fields.insert(random.randint(0, len(fields)), random.choice(fields))
    if random.random() < 0.15:
        random.shuffle(fields)
    if random.random() < 0.1:
        fields.pop(random.randint(0, len(fields) - 1))
    return b"".join(fields)


def make_payloads(random: Random) -> list[bytes]:
    return [b"", bytes(range(8)), b"\x7a\x02\x7a\x00", b"\x7a" * random.randint(1, 200)]


def encode_tensor(random: Random, data_types: list[int], payloads: list[bytes] | None = None) -> bytes:
    rank = random.randint(0, 3)
    dims = [random.choice(INTEGERS[:5]) for _ in range(rank)]
    strides = [random.choice(INTEGERS) for _ in range(random.choice([0, 0, rank]))]
    payload = random.choice(payloads or make_payloads(random))
    numbers = [encode_number(random, 1, random.choice(data_types))]
    return join_fields(
        random,
        [
            *numbers,
            encode_numbers(random, 2, dims),
            encode_numbers(random, 3, strides),
            encode_field(random, 15, payload),
        ],
    )


def encode_shape_tensor(random: Random) -> bytes:
    items = [random.choice([0, 1, 2, 2**32 - 1]) for _ in range(random.randint(0, 3))]
    payload = b"".join(item.to_bytes(4, "little") for item in items)
    return join_fields(
        random,
        [
            encode_number(random, 1, DataType.I32),
            encode_numbers(random, 2, [len(items)]),
            encode_field(random, 15, payload),
        ],
    )


def encode_partial_shape(random: Random) -> bytes:
    dims = [random.choice([b"", b"\x08\x00", encode_number(random, 1, random.choice(INTEGERS))]) for _ in range(3)]
    return join_fields(random, [encode_field(random, 1, dim) for dim in dims[: random.randint(1, 3)]])


def encode_request(random: Random, operation: Operation, payloads: list[bytes] | None = None) -> bytes:
    if operation is STATIC_RESHAPE:
        shape = encode_numbers(random, 1, [random.choice(INTEGERS) for _ in range(random.randint(0, 3))])
    else:
        shape = encode_field(random, 1, encode_shape_tensor(random))
    data_types = [*DataType, DataType.F32, DataType.F32, 2**32 + 14] + [0, 16, 2**64 - 1] * (random.random() < 0.1)
    tensors = [encode_tensor(random, data_types, payloads) for _ in range(random.choice([1, 1, 1, 1, 1, 2]))]
    fields = [shape, encode_number(random, 2, random.choice([0, 1, 1, 2**40]))]
    if random.random() < 0.4:
        fields.append(encode_field(random, 3, encode_partial_shape(random)))
    return join_fields(random, fields + [encode_field(random, 15, tensor) for tensor in tensors])


def mutate(random: Random, raw: bytes) -> bytes:
    """Breaks the encoding in one place."""
    at = random.randint(0, len(raw))
    kind = random.randint(0, 5)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + bytes([random.choice(BYTES)]) + raw[at:]
    if kind == 2:
        return raw[:at] + raw[at + 1 :]
    if kind == 3:
        return raw[:at] + raw[random.randint(0, at) :]
    if at == len(raw):
        return raw + random.choice([b"\x00", b"\x7a", b"\x7a\x00", b"\x08\x01", b"\x7a\x02\x7a\x00"])
    return (
        raw[:at] + bytes([random.choice(BYTES) if kind == 4 else raw[at] ^ 1 << random.randint(0, 7)]) + raw[at + 1 :]
    )


def break_some(random: Random, raw: bytes) -> bytes:
    """Breaks one encoding in four, and some of them further."""
    while random.random() < 0.25:
        raw = mutate(random, raw)
    return raw


def build_input(random: Random, operation: Operation) -> bytes:
    if random.random() < 0.02:
        return bytes(random.choice(BYTES) for _ in range(random.randint(0, 40)))
    return break_some(random, encode_request(random, operation))


def encode_accept(random: Random) -> bytes:
    return encode_field(random, 1, encode_tensor(random, [*DataType, 0, 16]))


def encode_chunk(random: Random) -> bytes:
    payload = random.choice(make_payloads(random))
    offset = encode_number(random, 4, random.choice(INTEGERS))
    return join_fields(random, [*[offset] * random.choice([0, 1, 1, 1, 2]), encode_field(random, 15, payload)])


def build_stream_input(random: Random, *, answers: bool) -> bytes:
    """One message of a stream; of an answer where `answers`. Now and then two, which protobuf reads as one."""
    raw = b""
    for _ in range(random.choice([1, 1, 1, 1, 1, 2])):
        if random.random() < 0.5:
            raw += encode_chunk(random)
        elif answers:
            raw += encode_accept(random)
        else:
            number, operation = random.choice(list(enumerate((STATIC_RESHAPE, DYNAMIC_RESHAPE, RESHAPE), 1)))
            raw += encode_field(random, number, encode_begin(random, operation))
    return break_some(random, raw)


def encode_begin(random: Random, operation: Operation) -> bytes:
    """A request, mostly without the bytes that no head on a stream has."""
    raw = encode_request(random, operation, payloads=[b"", b"", b"", b"", b"a"])
    return break_some(random, raw) if random.random() < 0.3 else raw
