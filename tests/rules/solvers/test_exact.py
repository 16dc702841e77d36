"""One division, or one comparison, in numbers of any size."""

from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from tensor_reshape.rules.solvers.exact import solve_exactly
from tensor_reshape.rules.targets import read_target

Dims = tuple[int, ...]
MAX = 2**63 - 1


def solve(operation: Operation, data: Dims, items: Dims) -> object:
    question = Question(operation, data, items, special_zero=True)
    try:
        return solve_exactly(question, read_target(question, items))
    except InvalidRequestError as error:
        values = [
            error.metadata[key] for key in ("have", "want", "dividend", "divisor", "dim") if key in error.metadata
        ]
        return " ".join([error.reason, *values])


# operation, data, items; the output, or the reason with its numbers
SOLVED: dict[tuple[Operation, Dims, Dims], Dims | str] = {
    (STATIC_RESHAPE, (2, 3), (3, 2)): (3, 2),
    (STATIC_RESHAPE, (2, 6), (3, -1)): (3, 4),
    (STATIC_RESHAPE, (2, 6), (0, -1)): (2, 6),
    (RESHAPE, (0, 6), (0, -1)): (0, 6),
    (RESHAPE, (MAX, MAX, 2), (MAX, -1, 2)): (MAX, MAX, 2),
    (RESHAPE, (), (-1,)): (1,),
    (RESHAPE, (2, 3), (0, 2)): "VOLUME_MISMATCH 6 4",
    (RESHAPE, (7,), (2, -1)): "NOT_DIVISIBLE 7 2",
    (RESHAPE, (4, 0, 2), (3, 0, -1)): "NOT_DIVISIBLE 8 3",  # what the copies leave
    (STATIC_RESHAPE, (4, 3, 2), (7, 0, -1)): "NOT_DIVISIBLE 24 21",  # the whole volume
    (STATIC_RESHAPE, (0, 6), (0, -1)): "MINUS_ONE_WITH_ZERO_VOLUME",
    (RESHAPE, (MAX, 2), (-1,)): f"DIM_OVERFLOW {2 * MAX}",
    (RESHAPE, (MAX, MAX), (2, -1)): f"NOT_DIVISIBLE {MAX * MAX} 2",
}


def test_an_output_is_exact_or_refused():
    assert {row: solve(*row) for row in SOLVED} == SOLVED
