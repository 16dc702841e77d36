"""Batches of queries and of results, as an encoder writes them that chooses between valid encodings.

Invariant: the protobuf definition decides which fields exist. This module decides how often each is set, and its value.
"""

from random import Random

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tensor_reshape.v1 import reshape_pb2
from verification.fuzz.encodings import INTEGERS, Encoder, zigzag

_NAMES = (b"N", b"N", b"M", b"batch", "größe".encode(), b"", b"\xff\xfe", b"N" * 65, b"N" * 130)
_VALUES = (0, 1, 2, 2, 3, 4, 6, 24, 127, 128, -1, -1, *INTEGERS)
_ENUMS = (*(1, 1, 2, 2, 3, 3, 3, 3) * 8, 0, 4, -1, 16, 2**32 + 1)
_LINKS = (0, 0, 1, 2, 2**31 - 1, 2**31, -1)
_RANKS = (0, 1, 1, 2, 2, 3, 4, 12)
_COUNTS = {
    "items": _RANKS,  # of a requested shape
    "dims": _RANKS,
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

_KINDS = {
    "kind": {"interval": 1, "symbol": 1, "expression": 1, "": 1},
    "result": {"answer": 16, "rejection": 4, "": 1},
}
"""The weights of the fields of a oneof. A missing entry means that no field is set."""

_REQUEST, _RESPONSE = reshape_pb2.BatchInferShapeRequest.DESCRIPTOR, reshape_pb2.BatchInferShapeResponse.DESCRIPTOR


class BatchWriter:
    """Writes fields of batches. `random` decides their values, and the encoder decides their encoding."""

    def __init__(self, encoder: Encoder, random: Random) -> None:
        """Writes with the encoder, and takes all decisions from `random`."""
        self._encoder = encoder
        self._random = random

    def write_questions(self) -> list[bytes]:
        """Writes the items of a request."""
        return self._write_several(_REQUEST.fields[0], self._random.choice((0, 1, 1, 2, 3)))

    def write_answers(self) -> list[bytes]:
        """Writes the results of a response."""
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
        values = [self._random.choice(_VALUES) for _ in range(self._random.choice(_RANKS))]
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
