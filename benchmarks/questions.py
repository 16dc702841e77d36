"""Shape queries: usual queries about models, and hostile ones."""

from collections.abc import Sequence
from itertools import cycle, islice
from random import Random

from tensor_reshape.client import DimLike, InferredShape, ReshapeError, ShapeQuery, infer_locally

MIXED, ALL_HOSTILE = "mixed", "hostile"
_KNOWN, _SYMBOLIC = "known", "symbols"
_PARTS = (_KNOWN, "intervals", _SYMBOLIC)
"""Three kinds of queries about models: all dims are known, or batch and length are intervals, or they are symbols."""

_BATCHES = (1, 512)
_LENGTHS = (1, 4096)
_NAMES = ("N", "S")
_WIDTHS = (32, 40, 48, 64, 80, 96, 128)
_HEADS = (4, 6, 8, 12, 16, 24, 32)
_SIDES = (7, 14, 28, 56, 112)
_HUGE = (2**20, 2**40)
_Shapes = tuple[tuple[DimLike, ...], tuple[int, ...]]
_SYMBOLS = tuple(f"S{number}" for number in range(64))

HOSTILE: dict[str, tuple[Sequence[DimLike] | None, Sequence[DimLike]]] = {
    "64 huge intervals into [-1]": ([_HUGE] * 64, [-1]),
    "64 huge intervals into 63 others and a -1": ([_HUGE] * 64, [*[_HUGE] * 63, -1]),
    "64 symbols into [-1]": (_SYMBOLS, [-1]),
    "64 symbols into the same and a -1": (_SYMBOLS, [*_SYMBOLS[:-1], -1]),
    "unknown rank into 8 symbols, 8 times each": (None, _SYMBOLS[:8] * 8),
    "the same with 3 unknown items": (None, [*(_SYMBOLS[:8] * 8)[:61], *[None] * 3]),
    "64 unknown dims into 64 unknown items": ([None] * 64, [None] * 64),
    "64 huge intervals into 64 unknown items": ([_HUGE] * 64, [None] * 64),
    "unknown rank into 64 unknown items": (None, [None] * 64),
}
"""The queries that need the most work, by name: the input shape and the requested shape."""


def make_questions(load: str, count: int) -> list[ShapeQuery]:
    """Returns queries, the same in every run: distinct reshapes of models, or the hostile ones repeatedly."""
    if load == ALL_HOSTILE:
        return [_make_query(*one) for one in islice(cycle(HOSTILE.values()), count)]
    random, shapes = Random(1), dict[_Shapes, None]()  # noqa: S311 - the same in every run
    # The part advances even if a query is a duplicate, because only some hundred queries have symbols.
    parts = cycle(_PARTS)
    while len(shapes) < count:
        shapes[_choose_shapes(random, next(parts))] = None
    return [_make_query(*one) for one in shapes]


def check_answers(questions: Sequence[ShapeQuery], answers: Sequence[InferredShape | ReshapeError]) -> None:
    """Raises ValueError if an answer differs from that of this process."""
    for question, answer, other in zip(questions, answers, infer_locally(questions), strict=True):
        if str(answer) != str(other):
            message = f"the answer to {question} is {answer!r}, in this process {other!r}"
            raise ValueError(message)


def _make_query(data: Sequence[DimLike] | None, target: Sequence[DimLike]) -> ShapeQuery:
    return ShapeQuery(data_shape=data, shape=target, special_zero=True, operation="reshape")


def _choose_shapes(random: Random, part: str) -> _Shapes:
    batch, length = random.randint(*_BATCHES), random.randint(*_LENGTHS)
    heads, width, side = random.choice(_HEADS), random.choice(_WIDTHS), random.choice(_SIDES)
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (
        ((length, heads * width), (-1, heads, width)),
        ((batch, length, heads * width), (0, 0, heads, width)),
        ((batch, length, heads * width), (-1, heads * width)),
        ((batch, length, heads, width), (0, 0, -1)),
        ((batch, length, 3 * heads * width), (0, 0, 3, heads, -1)),
        ((batch, length, width, side, side), (-1, width, side, side)),
        ((batch, length, side, side), (0, -1)),
        ((batch, length, side, side), (0, 0, side * side)),
    )
    data, target = random.choice(shapes)
    unknown = 1 if data[0] == length and len(data) == 2 else 2
    dims = data if part == _KNOWN else (*_hide(random, part, data[:unknown]), *data[unknown:])
    return dims, target


def _hide(random: Random, part: str, dims: tuple[int, ...]) -> list[DimLike]:
    """Returns the dims with the batch and the length as known as the kind of query requires."""
    if part == _SYMBOLIC:
        return list(_NAMES[-len(dims) :])
    hidden: list[DimLike] = [None if random.random() < 0.2 else (max(1, dim - 8), dim + 64) for dim in dims]
    return [dims[0] if len(dims) > 1 and random.random() < 0.2 else hidden[0], *hidden[1:]]
