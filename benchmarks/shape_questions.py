"""Questions about shapes: what models ask, and what nobody should."""

from collections.abc import Sequence
from math import prod
from random import Random
from typing import NamedTuple

from tensor_reshape.client import DimLike, ShapeQuery
from tensor_reshape.rules.dims import Dim, Interval

KNOWN, INTERVALS, SYMBOLS = "known", "intervals", "symbols"
PARTS = (KNOWN, INTERVALS, SYMBOLS)
_BATCHES = (1, 512)
_LENGTHS = (1, 4096)
_NAMES = ("N", "S")
_WIDTHS = (32, 40, 48, 64, 80, 96, 128)
_HEADS = (4, 6, 8, 12, 16, 24, 32)
_SIDES = (7, 14, 28, 56, 112)


class ShapeQuestion(NamedTuple):
    """A reshape of a model, by the rules of Reshape-1 with special_zero.

    Attributes:
        data: what is known of the data.
        target: the items.
        output: that of the instance from which the question was made; the answer has to admit it.
    """

    data: tuple[DimLike, ...]
    target: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def query(self) -> ShapeQuery:
        """The question as the SDK takes it."""
        return ShapeQuery(data_shape=self.data, shape=self.target, special_zero=True, operation="reshape")


def make_questions(count: int, parts: Sequence[str] = PARTS, seed: int = 1) -> list[ShapeQuestion]:
    """Returns distinct questions, of each part as many."""
    random, questions = Random(seed), dict[ShapeQuestion, None]()  # noqa: S311 - the same in every run
    while len(questions) < count:
        questions[_make_question(random, parts[len(questions) % len(parts)])] = None
    return list(questions)


def make_hostile_queries() -> dict[str, ShapeQuery]:
    """Returns questions that are as much work as one can be, by name."""
    huge = Dim(Interval(2**20, 2**40))
    names = tuple(f"S{number}" for number in range(64))

    def ask(data: Sequence[DimLike] | None, target: Sequence[DimLike]) -> ShapeQuery:
        return ShapeQuery(data_shape=data, shape=target, special_zero=True, operation="reshape")

    return {
        "64 huge intervals into [-1]": ask([huge] * 64, [-1]),
        "64 huge intervals into 63 others and a -1": ask([huge] * 64, [huge] * 63 + [-1]),
        "64 symbols into [-1]": ask(names, [-1]),
        "64 symbols into the same and a -1": ask(names, [*names[:-1], -1]),
        "unknown rank into 8 symbols, 8 times each": ask(None, names[:8] * 8),
        "the same with 3 unknown items": ask(None, [*(names[:8] * 8)[:61], *[None] * 3]),
        "64 unknown dims into 64 unknown items": ask([None] * 64, [None] * 64),
        "64 huge intervals into 64 unknown items": ask([huge] * 64, [None] * 64),
        "unknown rank into 64 unknown items": ask(None, [None] * 64),
    }


def _make_question(random: Random, part: str) -> ShapeQuestion:
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
    dims = data if part == KNOWN else (*_hide(random, part, data[:unknown]), *data[unknown:])
    return ShapeQuestion(dims, target, _solve(data, target))


def _hide(random: Random, part: str, dims: tuple[int, ...]) -> list[DimLike]:
    """Returns what is known of the batch and of the length."""
    if part == SYMBOLS:
        return list(_NAMES[-len(dims) :])
    hidden: list[DimLike] = [None if random.random() < 0.2 else (max(1, dim - 8), dim + 64) for dim in dims]
    return [dims[0] if len(dims) > 1 and random.random() < 0.2 else hidden[0], *hidden[1:]]


def _solve(data: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    output = [data[index] if item == 0 else item for index, item in enumerate(target)]
    rest = prod(item for item in output if item != -1)
    return tuple(prod(data) // rest if item == -1 else item for item in output)
