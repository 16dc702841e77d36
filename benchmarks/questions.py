"""Questions about shapes: what models ask, and what nobody should."""

from collections.abc import Sequence
from itertools import cycle, islice
from math import prod
from random import Random
from typing import NamedTuple

from tensor_reshape.client import DimLike, InferredShape, ReshapeError, ShapeQuery, infer_locally

MIXED, ALL_HOSTILE = "mixed", "hostile"
_KNOWN, _SYMBOLIC = "known", "symbols"
_PARTS = (_KNOWN, "intervals", _SYMBOLIC)
"""Three kinds of question about models: all dims are known, or batch and length are intervals, or they are symbols."""

_BATCHES = (1, 512)
_LENGTHS = (1, 4096)
_NAMES = ("N", "S")
_WIDTHS = (32, 40, 48, 64, 80, 96, 128)
_HEADS = (4, 6, 8, 12, 16, 24, 32)
_SIDES = (7, 14, 28, 56, 112)
_HUGE = (2**20, 2**40)
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
"""Questions that are as much work as one can be, by name: data and target."""


class ShapeQuestion(NamedTuple):
    """A question by the rules of Reshape-1 with special_zero.

    Attributes:
        data: what is known of the data.
        target: the items.
        output: that of the instance from which the question was made; the answer has to admit it. None: any may be.
    """

    data: Sequence[DimLike] | None
    target: Sequence[DimLike]
    output: tuple[int, ...] | None

    @property
    def query(self) -> ShapeQuery:
        """The question as the SDK takes it."""
        return ShapeQuery(data_shape=self.data, shape=self.target, special_zero=True, operation="reshape")


def make_questions(load: str, count: int) -> list[ShapeQuestion]:
    """Returns questions, the same in every run: distinct reshapes of models, or hostile ones again and again.

    Args:
        load: `MIXED` for questions of models, or `ALL_HOSTILE`.
        count: how many.
    """
    if load == ALL_HOSTILE:
        return [ShapeQuestion(*one, None) for one in islice(cycle(HOSTILE.values()), count)]
    random, questions = Random(1), dict[ShapeQuestion, None]()  # noqa: S311 - the same in every run
    while len(questions) < count:
        questions[_make_question(random, _PARTS[len(questions) % len(_PARTS)])] = None
    return list(questions)


def check_answers(questions: Sequence[ShapeQuestion], answers: Sequence[InferredShape | ReshapeError]) -> None:
    """Raises ValueError where an answer does not admit its question's output, or this process gives another."""
    local = infer_locally([question.query for question in questions])
    for question, answer, other in zip(questions, answers, local, strict=True):
        if str(answer) != str(other) or not (question.output is None or _admits(answer, question.output)):
            message = f"the answer to {question} is {answer!r}, in this process {other!r}"
            raise ValueError(message)


def _admits(answer: InferredShape | ReshapeError, output: tuple[int, ...]) -> bool:
    if isinstance(answer, ReshapeError) or len(answer) != len(output):
        return False
    bounds = [(dim, dim) if isinstance(dim, int) else dim.bounds if dim else (0, None) for dim in answer]
    return all(low <= size and (high is None or size <= high) for (low, high), size in zip(bounds, output, strict=True))


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
    dims = data if part == _KNOWN else (*_hide(random, part, data[:unknown]), *data[unknown:])
    return ShapeQuestion(dims, target, _solve(data, target))


def _hide(random: Random, part: str, dims: tuple[int, ...]) -> list[DimLike]:
    """Returns what is known of the batch and of the length."""
    if part == _SYMBOLIC:
        return list(_NAMES[-len(dims) :])
    hidden: list[DimLike] = [None if random.random() < 0.2 else (max(1, dim - 8), dim + 64) for dim in dims]
    return [dims[0] if len(dims) > 1 and random.random() < 0.2 else hidden[0], *hidden[1:]]


def _solve(data: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    output = [data[index] if item == 0 else item for index, item in enumerate(target)]
    rest = prod(item for item in output if item != -1)
    return tuple(prod(data) // rest if item == -1 else item for item in output)
