"""Random small queries with many zeros, equal names and unknown items."""

from random import Random

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question
from written_questions import read_shape

_DIMS = read_shape("0 0 1 2 3 ? ? 0..1 1..2 2..3 1.. N N M K N:0..1 N:1..2 M:0..2 M:2.. K:1..") or []
_ITEMS: list[AnyDim] = [-1, -1, -1, 0, 0, 0, 1, 2, 3, 6, None, None, *_DIMS]


def choose_dense(random: Random) -> AnyQuestion:
    """Returns a query with at most three dims and three items."""
    operation, special_zero = random.choice((STATIC_RESHAPE, RESHAPE, RESHAPE)), random.random() < 0.7
    data = random.choices(_DIMS, k=random.randint(0, 3)) if random.random() < 0.9 else None
    target = random.choices(_ITEMS, k=random.randint(0, 3))
    expected = [random.choice((None, *_DIMS)) for _ in target] if random.random() < 0.3 else None
    return Question(operation, data, target, special_zero, expected=expected)
