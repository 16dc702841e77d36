"""Generates millions of valid and almost valid messages. All of them follow from a seed.

Messages come in families: one message in several encodings, with other bytes in its tensor, with an error, and sent to
another method. This tests caches: after a server has cached one message, it receives similar ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.layouts import compute_span
from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.oip.datatypes import DATATYPES
from tensor_reshape.v1 import reshape_pb2
from tests.oracles.headers import PAYLOAD_FIELD, measure_header

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
    """Writes fields. The number of unusual encodings is decided once for a message."""

    def __init__(self, random: Random, liberty: float) -> None:
        self.random = random  # the source of all decisions
        self.liberty = liberty  # the probability of each unusual encoding; 0 writes as every generated class does

    def deviates(self, share: float = 1.0) -> bool:
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
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[: max(len(raw) - random.randint(1, 9), 0)]
    if kind == 2:
        return raw + random.choice(_TAILS)
    if kind == 3:
        return raw[:at] + bytes((random.choice(_BYTES),)) + raw[at:]
    return raw[:at] + raw[at + random.randint(1, 4) :]


LONG_PAYLOADS = (127, 128, 129, 2**14 - 1, 2**14, 2**14 + 1, 2**16, 70000)
_DIMS = (0, 1, 1, 2, 2, 3, 4, 8)
_RANKS = (0, 1, 1, 2, 2, 3, 4)
_FLOATS = (DataType.F32, DataType.F32, DataType.F16, DataType.BF16)
_ALL_TYPES = tuple(DataType)
_SHAPE_TYPES = (DataType.I64, DataType.I64, DataType.U64, DataType.I32, DataType.I16)
_ODD_TYPES = (0, len(DataType) + 1, 2**31, 2**32 + 14, -1)


@dataclass(frozen=True)
class Tensor:
    """The contents of a tensor message. A `payload` of None omits the field."""

    data_type: int
    dims: Sequence[int]
    strides: Sequence[int]
    payload: bytes | None


def choose_tensor(random: Random, operation: str) -> Tensor:
    """Chooses a tensor. Mostly its number of bytes is right, and `operation` supports its type."""
    data_type = random.choice(_ALL_TYPES if operation == "reshape" or random.random() < 0.03 else _FLOATS)
    dims = [random.choice(_DIMS) for _ in range(random.choice(_RANKS))]
    if random.random() < 0.004:
        dims = [random.choice(LONG_PAYLOADS) if random.random() < 0.98 else 2**21 + 5]
    strides = _choose_strides(random, dims)
    span = compute_span(dims, strides) if strides else prod(dims)
    payload = fill(random, data_type.count_bytes(span))
    if random.random() > 0.08:
        return Tensor(data_type, dims, strides, payload)
    odd = [random.choice(INTEGERS) for _ in range(random.choice((1, 1, 2, 3, 13, 65)))]
    return random.choice(
        (
            Tensor(random.choice((*_ODD_TYPES, *DataType)), dims, strides, payload),
            Tensor(data_type, odd, strides, payload),
            Tensor(data_type, dims, odd, payload),
            Tensor(data_type, dims, strides, None),
            Tensor(data_type, dims, strides, payload + random.choice((b"\x7a\x00", b"\x00", b"\x08\x0e"))),
        )
    )


def _choose_strides(random: Random, dims: list[int]) -> list[int]:
    share = random.random()
    if share < 0.75:
        return []
    if share < 0.9:  # column-major: as many bytes as dense ones, in another order
        return [prod(dims[:index]) for index in range(len(dims))]
    return [random.choice((0, 0, 1, 2, 3)) for _ in dims]


def fill(random: Random, size: int) -> bytes:
    """Returns bytes that look like fields 15 up to the end, like the beginning of a tensor, or random bytes."""
    kind = random.randrange(4)
    if kind == 0 and size <= 129:
        return b"".join([bytes((0x7A, left - 2)) for left in range(size, 1, -2)]) + bytes(size % 2)
    if kind == 1:
        return b"\x7a" * size
    if kind == 2:
        return (b"\x08\x0e\x12\x01\x01" * (size // 5 + 1))[:size]
    return random.randbytes(size)


def choose_target(random: Random, dims: Sequence[int]) -> list[int]:
    """Chooses a requested shape that mostly matches the data."""
    kind = random.randrange(12)
    if kind < 5:
        return [-1]
    if kind < 8:
        return list(reversed(dims))
    if kind < 10:
        return [0] * random.randint(0, max(len(dims) - 1, 0)) + [-1]
    if kind < 11:
        return [prod(dims) % 2**63]
    return [random.choice(INTEGERS) for _ in range(random.choice((1, 2, 3, 13, 65)))]


def choose_shape_tensor(random: Random, operation: str, target: list[int]) -> Tensor:
    """Chooses how the requested shape is written as a tensor."""
    data_type = DataType.I32 if operation == "dynamic_reshape" else random.choice(_SHAPE_TYPES)
    size = data_type.group_bytes
    payload = b"".join([(item % 256**size).to_bytes(size, "little") for item in target])
    tensor = Tensor(data_type, [len(target)], [], payload)
    if random.random() > 0.05:
        return tensor
    return random.choice(
        (
            choose_tensor(random, "reshape"),
            replace(tensor, dims=[len(target), 1]),
            replace(tensor, strides=[1]),
            Tensor(data_type, [random.choice((1, 3, 64, 65, 2**40))], [0], payload[:size]),
            Tensor(data_type, [2], [3], payload[:size] * 4),
        )
    )


_NAMES = (b"N", b"N", b"M", b"batch", "größe".encode(), b"", b"\xff\xfe", b"N" * 65, b"N" * 130)
_VALUES = (0, 1, 2, 2, 3, 4, 6, 24, 127, 128, -1, -1, *INTEGERS)
_ENUMS = (*(1, 1, 2, 2, 3, 3, 3, 3) * 8, 0, 4, -1, 16, 2**32 + 1)
_LINKS = (0, 0, 1, 2, 2**31 - 1, 2**31, -1)
_SHAPE_RANKS = (0, 1, 1, 2, 2, 3, 4, 12)
_COUNTS = {
    "items": _SHAPE_RANKS,  # of a requested shape
    "dims": _SHAPE_RANKS,
    "partial": (0, 1, 1, 2),
    "origins": (*[0] * 9, 1),
    "conditions": (*[0] * 9, 1),
    "factors": (0, 1, 1, 2),
    "divisors": (0, 0, 1),
    "metadata": (0, 1, 1),
}
"""The weights of the number of times that a repeated field is set."""

_SHARES = {
    **dict.fromkeys(("question", "operation", "special_zero", "data", "shape", "name"), 0.97),
    **dict.fromkeys(("data_type", "expected_shape", "explain"), 0.08),
    **dict.fromkeys(("data_from", "bounds"), 0.2),
}
"""The probability that any other field is set. A field that is not listed is set more often than not."""

_KINDS = {"kind": {"interval": 1, "symbol": 1, "expression": 1, "": 1}, "result": {"answer": 16, "rejection": 4, "": 1}}
"""The weights of the fields of a oneof. A missing entry means that no field is set."""

_REQUEST, _RESPONSE = reshape_pb2.BatchInferShapeRequest.DESCRIPTOR, reshape_pb2.BatchInferShapeResponse.DESCRIPTOR


class Writer:
    """Writes fields. `random` decides their values, and the encoder decides their encoding."""

    def __init__(self, encoder: Encoder, random: Random) -> None:
        self._encoder = encoder
        self._random = random


class BatchWriter(Writer):
    """Writes fields of batches."""

    def write_questions(self) -> list[bytes]:
        return self._write_several(_REQUEST.fields[0], self._random.choice((0, 1, 1, 2, 3)))

    def write_answers(self) -> list[bytes]:
        return self._write_several(_RESPONSE.fields[0], self._random.choice((0, 1, 1, 2, 3)))

    def _write_several(self, field: FieldDescriptor, count: int) -> list[bytes]:
        assert field.message_type is not None
        return [
            self._encoder.field(field.number, self._encoder.join(self._write_message(field.message_type)))
            for _ in range(count)
        ]

    def _write_message(self, message: Descriptor) -> list[bytes]:
        if "partial" in message.fields_by_name and self._random.random() < 0.8:
            return self._write_shape(message)
        return [piece for field in self._choose_fields(message) for piece in self._write_field(field)]

    def _write_shape(self, message: Descriptor) -> list[bytes]:
        """Writes a shape whose entries mostly have the indices of numbers that are -1."""
        numbers, partial = message.fields
        values = [self._random.choice(_VALUES) for _ in range(self._random.choice(_SHAPE_RANKS))]
        entries = [at for at, value in enumerate(values) if self._random.random() < (0.7 if value == -1 else 0.01)]
        pieces = self._encoder.numbers(numbers.number, list(map(zigzag, values)))
        assert partial.message_type is not None
        for at in entries:
            (kind,) = self._choose_kind(partial.message_type) or (None,)
            index = [self._encoder.number(1, at)] if self._random.random() < 0.98 else []
            entry = self._encoder.join([*index, *(() if kind is None else self._write_field(kind))])
            pieces.append(self._encoder.field(partial.number, entry))
        return pieces

    def _choose_kind(self, message: Descriptor) -> list[FieldDescriptor]:
        """Chooses at most one field of a oneof."""
        for oneof in message.oneofs:
            if oneof.name in _KINDS:
                kinds = _KINDS[oneof.name]
                (name,) = self._random.choices(list(kinds), list(kinds.values()))
                return [message.fields_by_name[name]] if name else []
        return []

    def _choose_fields(self, message: Descriptor) -> list[FieldDescriptor]:
        others = [
            field
            for field in message.fields
            if (field.containing_oneof is None or field.containing_oneof.name not in _KINDS)
            and (field.name in _COUNTS or self._random.random() < _SHARES.get(field.name, 0.6))
        ]
        return [*others, *self._choose_kind(message)]

    def _write_field(self, field: FieldDescriptor) -> list[bytes]:
        random, encoder = self._random, self._encoder
        count = random.choice(_COUNTS.get(field.name, (1,)))
        if field.message_type is not None:
            if field.name in _COUNTS:
                return self._write_several(field, count)
            return encoder.message(field.number, self._write_message(field.message_type))
        if field.name in _COUNTS:
            values = [random.choice(_VALUES) for _ in range(count)]
            is_signed = field.type == FieldDescriptor.TYPE_SINT64
            return encoder.numbers(field.number, list(map(zigzag, values)) if is_signed else values)
        if field.type == FieldDescriptor.TYPE_STRING:
            return [encoder.field(field.number, random.choice(_NAMES if random.random() < 0.1 else _NAMES[:4]))]
        return [encoder.number(field.number, random.choice(_VALUES_OF.get(field.type, _VALUES)))]


_VALUES_OF = {
    FieldDescriptor.TYPE_ENUM: _ENUMS,
    FieldDescriptor.TYPE_BOOL: (0, 1, 1, 2),
    FieldDescriptor.TYPE_INT32: _LINKS,
}
"""Values of numbers that are not s64."""


_MODELS = (b"reshape", b"reshape", b"reshape", b"static_reshape", b"dynamic_reshape", b"infer_shape")
_ODD_NAMES = (b"", b"resnet", b"\xff", b"x" * 200, "größe".encode())
_IDS = (b"", b"", b"1", b"seven", b"x" * 127, b"x" * 128, b"\x1a\x011", "größe".encode())
# Bounds the number of elements: a wrong length can make the parser read elements as fields, and it checks only some.
_LONG_DIMS = (127, 128, 129, 600)
_TYPED = {"INT8": 2, "INT16": 2, "INT32": 2, "INT64": 3, "UINT8": 4, "UINT16": 4, "UINT32": 4, "UINT64": 5, "BOOL": 1}
_TYPED_SHARE = 0.15


class InferenceWriter(Writer):
    """Writes the fields of inference requests."""

    def write(self) -> list[bytes]:
        """Writes a request, which is mostly valid."""
        random, encoder = self._random, self._encoder
        model = random.choice(_MODELS if random.random() < 0.95 else _ODD_NAMES)
        dims = [random.choice(_DIMS) for _ in range(random.choice(_RANKS))]
        if random.random() < 0.01:
            dims = [random.choice(_LONG_DIMS)]
        target = choose_target(random, dims)
        texts = [(1, model), (2, random.choice((b"", b"", b"1", b"2"))), (3, random.choice(_IDS))]
        fields = [encoder.field(number, text) for number, text in texts if text]
        fields += self._write_parameter(b"special_zero", self._encoder.number(1, random.randrange(2)), 0.97)
        tensors = [self._write_shape(dims) if model == b"infer_shape" else self._write_data(model, dims)]
        if random.random() < 0.5:
            text = f"[{','.join(map(str, target))}]".encode()
            fields += self._write_parameter(b"shape", encoder.field(3, text), 0.97)
        else:
            tensors.append(self._write_items(b"shape", target))
        if random.random() < 0.2:
            random.shuffle(tensors)
        fields += [encoder.field(5, encoder.join(described)) for described, _ in tensors]
        name = b"output" if model != b"infer_shape" else b"shape"
        if random.random() < 0.3:
            fields.append(encoder.field(6, encoder.field(1, name if random.random() < 0.9 else b"other")))
        return fields + [encoder.field(7, content) for _, content in tensors if content is not None]

    def _write_parameter(self, key: bytes, choice: bytes, share: float) -> list[bytes]:
        if self._random.random() > share:
            return []
        return [self._encoder.field(4, self._encoder.field(1, key) + self._encoder.field(2, choice))]

    def _write_data(self, model: bytes, dims: list[int]) -> tuple[list[bytes], bytes | None]:
        """Returns the description of the elements and, if they are raw, the elements."""
        names = [*DATATYPES] if model == b"reshape" or self._random.random() < 0.03 else ["FP32", "FP16", "BF16"]
        name = self._random.choice(names)
        described = self._describe(b"data", name if self._random.random() < 0.97 else "BYTES", dims)
        if name in _TYPED and self._random.random() < _TYPED_SHARE:
            numbers = [self._random.choice((0, 1, 1, 127, *INTEGERS)) for _ in range(prod(dims))]
            return [*described, *self._encoder.message(5, self._encoder.numbers(_TYPED[name], numbers))], None
        return described, fill(self._random, DATATYPES[name].count_bytes(prod(dims)) + (self._random.random() < 0.03))

    def _write_shape(self, dims: list[int]) -> tuple[list[bytes], bytes | None]:
        return self._write_items(b"data_shape", [-1 if self._random.random() < 0.3 else dim for dim in dims])

    def _write_items(self, name: bytes, items: list[int]) -> tuple[list[bytes], bytes]:
        size = self._random.choice((4, 8))
        payload = b"".join([(item % 256**size).to_bytes(size, "little") for item in items])
        return self._describe(name, "INT32" if size == 4 else "INT64", [len(items)]), payload

    def _describe(self, name: bytes, datatype: str, dims: list[int]) -> list[bytes]:
        encoder = self._encoder
        return [encoder.field(1, name), encoder.field(2, datatype.encode()), *encoder.numbers(3, dims)]


METHODS = ("static_reshape", "dynamic_reshape", "reshape")
STREAM_KINDS = ("to_server", "to_client")
BATCH_KINDS = ("questions", "answers")
INFERENCE = "inference"
KINDS = (*METHODS, "response", *STREAM_KINDS, *BATCH_KINDS, INFERENCE)
# Requests are the most frequent, because only they get a response, from a service that caches.
_FAMILIES = (
    *METHODS * 3,
    *("response", "response", "to_server", "to_server", "to_client"),
    *("questions", "questions", "answers"),
    *(INFERENCE, INFERENCE, INFERENCE),
)
_LIBERTIES = (0.02, 0.1, 0.1, 0.3, 0.6)
_SIZES = (0, 1, 8, 8, 64, 64, 130)
_PADDING = 65000  # a header below the limit; its lengths have as many bytes as those of a header above the limit


class Input(NamedTuple):
    """An input that is parsed as a message of a kind; `kind` is one of `KINDS`."""

    kind: str
    raw: bytes


@dataclass(frozen=True)
class Padding:
    """Unknown fields before the others: `size` bytes in one field or in many, in the tensor or in front of it."""

    size: int = 0
    inner: bool = False
    flood: bool = False

    def build(self, *, inner: bool) -> list[bytes]:
        if not self.size or inner != self.inner:
            return []
        if self.flood:
            return [b"\x28\x01" * (self.size // 2) + b"\x81\x00" * (self.size % 2)]
        return [b"\x2a" + encode_varint(self.size) + bytes(self.size)]


def generate(random: Random) -> Iterator[Input]:
    while True:
        yield from _build_family(random)


def _build_family(random: Random) -> Iterator[Input]:
    kind, seed = random.choice(_FAMILIES), random.getrandbits(64)
    if kind not in (*BATCH_KINDS, INFERENCE) and random.random() < 0.002:
        yield Input(kind, _build_large_header(kind, seed))
        return
    if random.random() < 0.05:
        yield Input(kind, random.randbytes(random.randint(0, 40)))
    # The first encoding is that of the generated classes, so the service has cached it when the unusual ones come.
    raw = _Message(Encoder(random, 0.0), seed).build(kind)
    yield Input(kind, raw)
    for liberty in random.choices(_LIBERTIES, k=3):
        yield Input(kind, _Message(Encoder(random, liberty), seed).build(kind))
    yield from _change(random, kind, raw)
    if kind in METHODS:
        others = [other for other in METHODS if other != kind]
        yield from (Input(other, raw) for other in others if random.random() < 0.3)
    elif random.random() < 0.05:
        yield Input(random.choice(KINDS), raw)


def _change(random: Random, kind: str, raw: bytes) -> Iterator[Input]:
    """Yields the message with another last byte, which mostly belongs to its tensor, and with errors."""
    if raw:
        yield Input(kind, raw[:-1] + bytes((raw[-1] ^ 1,)))
    for _ in range(random.choice((1, 2))):
        changed = mutate(random, raw)
        while random.random() < 0.1:
            changed = mutate(random, changed)
        yield Input(kind, changed)


def _build_large_header(kind: str, seed: int) -> bytes:
    """Returns a message whose header has the maximum size, or some bytes less or more."""
    random = Random(seed)
    padding = Padding(_PADDING, inner=random.random() < 0.5, flood=random.random() < 0.01)
    liberty, wanted = random.choice((0, *_LIBERTIES)), MAX_HEADER_BYTES + random.choice((-1, 0, 0, 1, 1, 2))
    raw = _Message(Encoder(Random(seed), liberty), seed, padding).build(kind)
    missing = wanted - measure_header(raw, nested=kind not in STREAM_KINDS)
    padding = replace(padding, size=max(padding.size + missing, 0))
    return _Message(Encoder(Random(seed), liberty), seed, padding).build(kind)


class _Message:
    """The message of a seed, as an encoder writes it that chooses between valid encodings."""

    def __init__(self, encoder: Encoder, seed: int, padding: Padding | None = None) -> None:
        self._encoder = encoder
        self._random = Random(seed)
        self._padding = padding or Padding()

    def build(self, kind: str) -> bytes:
        if kind in METHODS:
            return self._encoder.join(self._write_request(kind, streams=False))
        if kind == INFERENCE:
            return self._encoder.join(InferenceWriter(self._encoder, self._random).write())
        if kind in BATCH_KINDS:
            batch = BatchWriter(self._encoder, self._random)
            return self._encoder.join(batch.write_questions() if kind == "questions" else batch.write_answers())
        front = self._padding.build(inner=False)
        if kind == "response":
            output = self._write_tensor(choose_tensor(self._random, "reshape"), padded=True)
            return self._encoder.join([*front, *self._encoder.message(PAYLOAD_FIELD, output)])
        part = self._write_output() if kind == "to_client" else self._write_begin()
        chunk, share = self._write_chunk(), self._random.random()
        return self._encoder.join([*front, *(chunk if share < 0.45 else part if share < 0.9 else chunk + part)])

    def _write_request(self, method: str, *, streams: bool) -> list[bytes]:
        random, encoder = self._random, self._encoder
        data = choose_tensor(random, method)
        target = choose_target(random, data.dims)
        if streams and random.random() < 0.9:
            data = replace(data, payload=None)
        if method == "static_reshape":
            shape = encoder.message(1, self._write_items(target)) if random.random() < 0.98 else []
        else:
            shape = encoder.message(1, self._write_tensor(choose_shape_tensor(random, method, target)))
        said = [encoder.number(2, random.choice((0, 1, 1, 1, 2**40)))] if random.random() < 0.98 else []
        fields = [*self._padding.build(inner=False), *shape, *said]
        if random.random() < 0.1:
            fields += encoder.message(3, self._write_expected(target))
        return fields + encoder.message(PAYLOAD_FIELD, self._write_tensor(data, padded=True))

    def _write_tensor(self, tensor: Tensor, *, padded: bool = False) -> list[bytes]:
        encoder = self._encoder
        fields = [
            *(self._padding.build(inner=True) if padded else ()),
            encoder.number(1, tensor.data_type),
            *encoder.numbers(2, list(tensor.dims)),
            *encoder.numbers(3, list(tensor.strides)),
        ]
        return fields if tensor.payload is None else [*fields, encoder.field(PAYLOAD_FIELD, tensor.payload)]

    def _write_expected(self, target: list[int]) -> list[bytes]:
        dims = [dim if self._random.random() < 0.5 else -1 for dim in target]
        pieces = self._encoder.numbers(1, list(map(zigzag, dims)))
        if self._encoder.deviates():
            pieces.append(self._encoder.field(2, self._encoder.unknown()))
        return pieces

    def _write_items(self, target: list[int]) -> list[bytes]:
        pieces = self._encoder.numbers(1, list(map(zigzag, target)))
        if self._encoder.deviates(0.1):
            pieces.append(self._encoder.field(2, self._random.choice((b"", self._encoder.unknown()))))
        return pieces

    def _write_chunk(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        offset = random.choice((0, 0, 1, 64, 2**20, *INTEGERS))
        size = random.choice(_SIZES if random.random() < 0.99 else LONG_PAYLOADS)
        chunk = [encoder.field(PAYLOAD_FIELD, fill(random, size))]
        return [encoder.number(4, offset), *chunk] if offset or encoder.deviates() else chunk

    def _write_begin(self) -> list[bytes]:
        number = self._random.randrange(len(METHODS))
        return self._encoder.message(1 + number, self._write_request(METHODS[number], streams=True))

    def _write_output(self) -> list[bytes]:
        output = choose_tensor(self._random, "reshape")
        bare = output if self._random.random() < 0.1 else replace(output, strides=[], payload=None)
        return self._encoder.message(1, self._write_tensor(bare, padded=True))
