"""What output dims are called: where names go, what they are multiplied and divided to, and which ones are equal."""

import pytest

from tensor_reshape.rules.dims import AnyDim, format_dims
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question, ShapeAnswer


def ask(data: str, target: str, expected: str | None = None) -> ShapeAnswer:
    def read(text: str) -> list[AnyDim]:
        return [parse_dim(dim) for dim in text.split()]

    question = Question(
        operation=RESHAPE,
        data=read(data),
        target=read(target),
        special_zero=True,
        expected=None if expected is None else read(expected),
    )
    return infer(question)


# data, target, output
NAMED: dict[str, tuple[str, str, str]] = {
    "a copy keeps its name": ("N 4", "0 4", "[N, 4]"),
    "a copy cancels": ("N 4 5", "0 -1", "[N, 20]"),
    "a length of the same name cancels": ("N:1..8 4", "N -1", "[N, 4]"),
    "a product": ("N 4", "-1", "[4*N]"),
    "a product of names": ("N M", "-1", "[M*N]"),
    "a power": ("N N", "-1", "[N^2]"),
    "a quotient": ("N 4", "8 -1", "[8, N/2]"),
    "a divided name": ("N", "M:1..4 -1", "[M, N/M]"),
    "a name beside what has none": ("N ?", "-1", "[?]"),
    "one number is no name": ("N:3..3 4", "-1", "[12]"),
}


@pytest.mark.parametrize(("data", "target", "output"), NAMED.values(), ids=NAMED.keys())
def test_names_go_where_their_dims_go(data: str, target: str, output: str):
    assert format_dims(ask(data, target).dims) == output


def find_equalities(data: str, target: str, expected: str | None = None) -> list[tuple[str, str, bool]]:
    return [(str(left), str(right), unless) for left, right, unless in ask(data, target, expected).equalities]


def test_lengths_with_other_names_are_equal():
    assert find_equalities("N 4", "M 4") == [("N", "M", False)]


def test_equal_names_cancel_where_the_tensor_has_elements():
    assert find_equalities("N M", "N K") == [("M", "K", True)]


def test_equal_names_that_are_not_0_cancel():
    assert find_equalities("N:1..8 M", "N K") == [("M", "K", False)]


def test_a_named_minus_one_may_be_0():
    assert find_equalities("N A", "-1 B", "N ?") == [("A", "B", True)]


def test_numbers_are_cancelled():
    assert find_equalities("N 4", "M 2") == [("2*N", "M", False)]
