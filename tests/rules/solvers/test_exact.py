"""One division, or one comparison, in numbers of any size."""

import pytest

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from tensor_reshape.rules.solvers.exact import solve_exactly
from tensor_reshape.rules.targets import read_target

Dims = tuple[int, ...]
MAX = 2**63 - 1


def solve(operation: Operation, data: Dims, items: Dims) -> Dims:
    question = Question(operation, data, items, special_zero=True)
    return solve_exactly(question, read_target(question, items))


# operation, data, items, output
SOLVED: dict[str, tuple[Operation, Dims, Dims, Dims]] = {
    "no -1": (STATIC_RESHAPE, (2, 3), (3, 2), (3, 2)),
    "a quotient": (STATIC_RESHAPE, (2, 6), (3, -1), (3, 4)),
    "a copy that divides": (STATIC_RESHAPE, (2, 6), (0, -1), (2, 6)),
    "a copy that is cancelled": (RESHAPE, (0, 6), (0, -1), (0, 6)),
    "a quotient of numbers beyond 64 bits": (RESHAPE, (MAX, MAX, 2), (MAX, -1, 2), (MAX, MAX, 2)),
    "nothing to divide by": (RESHAPE, (), (-1,), (1,)),
}


@pytest.mark.parametrize(("operation", "data", "items", "output"), SOLVED.values(), ids=SOLVED.keys())
def test_the_output_is_exact(operation: Operation, data: Dims, items: Dims, output: Dims):
    assert solve(operation, data, items) == output


# operation, data, items, reason
REFUSED: dict[str, tuple[Operation, Dims, Dims, Reason]] = {
    "unequal volumes": (RESHAPE, (2, 3), (0, 2), Reason.VOLUME_MISMATCH),
    "a remainder": (RESHAPE, (7,), (2, -1), Reason.NOT_DIVISIBLE),
    "a copied 0 that divides": (STATIC_RESHAPE, (0, 6), (0, -1), Reason.MINUS_ONE_WITH_ZERO_VOLUME),
    "a quotient that no dim is": (RESHAPE, (MAX, 2), (-1,), Reason.DIM_OVERFLOW),
    "a remainder of what no dim is": (RESHAPE, (MAX, MAX), (2, -1), Reason.NOT_DIVISIBLE),
}


@pytest.mark.parametrize(("operation", "data", "items", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_output_is_refused(operation: Operation, data: Dims, items: Dims, reason: Reason):
    with pytest.raises(InvalidRequestError) as caught:
        solve(operation, data, items)
    assert caught.value.reason == reason
