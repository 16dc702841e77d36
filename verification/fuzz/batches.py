"""Batches of questions, and batches of answers to them, in the encoding of an encoder that decides by itself."""

from collections.abc import Callable
from random import Random

from verification.fuzz.encodings import INTEGERS, Encoder

_NAMES = (b"N", b"N", b"M", b"batch", "größe".encode(), b"", b"\xff\xfe", b"N" * 65, b"N" * 130)
_OPERATIONS = (1, 1, 2, 2, 3, 3, 3, 3, 0, 4, -1, 2**32 + 1)
_RANKS = (0, 1, 1, 2, 2, 3, 4, 12)
_VALUES = (0, 1, 2, 2, 3, 4, 6, 24, 127, 128, -1, -1, *INTEGERS)
_LINKS = (0, 0, 1, 2, 2**31 - 1, 2**31, -1)


class BatchWriter:
    """Writes fields of batches; what they say follows from `random`, how they say it from the encoder."""

    def __init__(self, encoder: Encoder, random: Random) -> None:
        """Writes with the encoder what `random` decides."""
        self._encoder = encoder
        self._random = random

    def write_questions(self) -> list[bytes]:
        """Writes the items of a request."""
        return self._write_several(self._write_item)

    def write_answers(self) -> list[bytes]:
        """Writes the results of a response."""
        return self._write_several(self._write_result)

    def _write_several(self, write: Callable[[], list[bytes]]) -> list[bytes]:
        return [
            self._encoder.field(1, self._encoder.join(write())) for _ in range(self._random.choice((0, 1, 1, 2, 3)))
        ]

    def _write_item(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        link = [encoder.number(2, random.choice(_LINKS))] if random.random() < 0.2 else []
        if random.random() < 0.03:
            return link
        return encoder.message(1, self._write_question()) + link

    def _write_question(self) -> list[bytes]:
        """Writes what most questions say, and now and then all that they may say."""
        random, encoder = self._random, self._encoder
        says = [random.random() < share for share in (0.98, 0.97, 0.95, 0.95, 0.08, 0.08, 0.08)]
        operation, special_zero = (
            random.choice(_OPERATIONS[: 8 if random.random() < 0.95 else None]),
            random.randrange(2),
        )
        fields: tuple[Callable[[], list[bytes]], ...] = (
            lambda: [encoder.number(1, operation)],
            lambda: [encoder.number(2, special_zero)],
            lambda: encoder.message(3, self._write_spec()),
            lambda: encoder.message(4, self._write_shape()),
            lambda: encoder.message(5, self._write_shape()),
            lambda: [encoder.number(6, random.choice((0, 1, 2)))],
            lambda: encoder.message(7, self._write_strides()),
        )
        return [piece for said, field in zip(says, fields, strict=True) if said for piece in field()]

    def _write_spec(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        kind = [encoder.number(1, random.choice((14, 14, 5, 0, 16, -1)))] if random.random() < 0.1 else []
        return kind + (encoder.message(2, self._write_shape()) if random.random() < 0.97 else [])

    def _write_strides(self) -> list[bytes]:
        return self._encoder.numbers(1, [self._random.choice(_VALUES) for _ in range(self._random.choice(_RANKS))])

    def _write_shape(self) -> list[bytes]:
        dims = [self._write_dim() for _ in range(self._random.choice(_RANKS))]
        return [self._encoder.field(1, self._encoder.join(dim)) for dim in dims]

    def _write_dim(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        share = random.random()
        if share < 0.8:
            return [encoder.number(1, random.choice(_VALUES))]
        if share < 0.85:
            return []
        if share < 0.9:
            return encoder.message(2, self._write_interval())
        return (
            encoder.message(3, self._write_symbol()) if share < 0.95 else encoder.message(4, self._write_expression())
        )

    def _write_interval(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        low = [encoder.number(1, random.choice(_VALUES))] if random.random() < 0.8 else []
        return low + ([encoder.number(2, random.choice(_VALUES))] if random.random() < 0.5 else [])

    def _write_symbol(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        bounds = encoder.message(2, self._write_interval()) if random.random() < 0.3 else []
        return [encoder.field(1, random.choice(_NAMES if random.random() < 0.1 else _NAMES[:4])), *bounds]

    def _write_expression(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        fields = [encoder.number(number, random.choice(_VALUES)) for number in (1, 3) if random.random() < 0.5]
        numbers = [number for number in (2, 2, 4) if random.random() < 0.5]
        fields += [encoder.field(number, encoder.join(self._write_symbol())) for number in numbers]
        return fields + (encoder.message(5, self._write_interval()) if random.random() < 0.2 else [])

    def _write_result(self) -> list[bytes]:
        share = self._random.random()
        if share < 0.03:
            return []
        number, fields = (1, self._write_answer()) if share < 0.8 else (2, self._write_refusal())
        return self._encoder.message(number, fields)

    def _write_answer(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        fields = encoder.message(1, self._write_shape()) if random.random() < 0.97 else []
        for number, write in ((2, self._write_origin), (3, self._write_equality)):
            if random.random() < 0.1:
                fields.append(encoder.field(number, encoder.join(write())))
        return fields + (encoder.message(4, self._write_view()) if random.random() < 0.1 else [])

    def _write_origin(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        index = [encoder.number(2, random.choice(_LINKS))] if random.random() < 0.5 else []
        texts = [encoder.field(number, random.choice(_NAMES[:6])) for number in (3, 4, 5)]
        return [encoder.number(1, random.choice((0, 1, 2, 3, 4, 5, 6, -1))), *index, *texts]

    def _write_equality(self) -> list[bytes]:
        sides = [piece for number in (1, 2) for piece in self._encoder.message(number, self._write_expression())]
        return [*sides, self._encoder.number(3, self._random.randrange(2))]

    def _write_view(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        strides = encoder.message(2, self._write_strides()) if random.random() < 0.7 else []
        return [encoder.number(1, random.choice((0, 1, 1, 2, 3, 4))), *strides]

    def _write_refusal(self) -> list[bytes]:
        random, encoder = self._random, self._encoder
        values = [encoder.field(number, random.choice(_NAMES[:6])) for number in (1, 2)]
        return [
            encoder.field(1, random.choice((b"NOT_DIVISIBLE", b"LATER", b""))),
            encoder.field(2, random.choice(_NAMES[:6])),
            encoder.field(3, random.choice((b"shape[1]", b""))),
            *([encoder.field(4, encoder.join(values))] if random.random() < 0.7 else []),
            encoder.number(5, random.choice((0, 0, 1, 2))),
        ]
