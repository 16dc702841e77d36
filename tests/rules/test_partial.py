"""The truths of shapes that are known in part: one row of a table is one truth."""

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question

EVERY = tuple(OPERATIONS.values())
MAX = 2**63 - 1


def read(text: str | None) -> list[AnyDim] | None:
    return None if text is None else [parse_dim(dim) for dim in text.split()]


def ask(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, expected: str | None = None
) -> list[AnyDim] | None:
    question = Question(
        operation=operation,
        data=read(data),
        target=read(target),
        special_zero=special_zero,
        expected=read(expected),
    )
    dims = infer(question).dims
    return None if dims is None else list(dims)


# data, target, special_zero, output: the same for all operations.
TRUTHS: dict[str, tuple[str | None, str | None, bool, str | None]] = {
    "nothing is known": (None, None, True, None),
    "no item is known": ("2 3", None, False, None),
    "everything is known": ("2 3", "3 2", False, "3 2"),
    "a known -1": ("2 3", "-1", False, "6"),
    "an interval is flattened": ("1..3 4", "-1", False, "4..12"),
    "an unknown dim may be 0": ("? 4", "-1", False, "?"),
    "copy and infer": ("1 1..3 3 1..6", "0 -1 3", True, "1 1..18 3"),
    "the known dims cancel": ("? 1 2", "-1 2", False, "? 2"),
    "a quotient is rounded inwards": ("2..4 2 2..6 1 3", "-1 12 2", False, "1..6 12 2"),
    "an unknown rank": (None, "3 -1 2", False, "3 ? 2"),
    "an unknown rank, copied": (None, "3 0", True, "3 ?"),
    "one item is left": ("2 3", "?", False, "6"),
    "one unknown item beside a known one": ("2 3", "3 ?", False, "3 2"),
    "an unknown item divides": ("12", "? ?", False, "1..12 1..12"),
    "an open length is what is left": ("2 3", "3 0..", False, "3 2"),
    "a length is no wider than the volume": ("2..3", "1..9", False, "2..3"),
    "copies keep their bounds": ("2..5 ?", "0 0", True, "2..5 ?"),
    "a literal 0": ("? 3", "0 7", False, "0 7"),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "output"), TRUTHS.values(), ids=TRUTHS.keys())
def test_each_truth_holds(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, output: str | None
):
    assert ask(operation, data, target, special_zero) == read(output)


def test_a_length_that_may_be_0_is_no_copy():
    assert ask(RESHAPE, "3 0..1", "0..1 3", True) == read("0..1 3")


def test_copies_of_a_dim_that_may_be_0_cancel_in_reshape():
    assert ask(RESHAPE, "4 0..1 2", "-1 0", True) == read("8 0..1")


def test_copies_of_a_dim_that_may_be_0_divide_in_static_reshape():
    assert ask(STATIC_RESHAPE, "4 0..1 2", "-1 0", True) == [8, 1]


def test_huge_bounds_stay_exact():
    assert ask(RESHAPE, f"{2**61}..{2**61 + 1} 2", "-1", False) == [Dim(Interval(2**62, 2**62 + 2))]


def test_a_bound_above_the_largest_dim_is_none():
    assert ask(RESHAPE, f"1..{MAX} 1..{MAX}", "-1", False) == [Dim(Interval(1, None))]


# data, target, expected, output of Reshape-1 without special_zero
EXPECTED: dict[str, tuple[str | None, str | None, str, str]] = {
    "an expected dim narrows": ("?", "-1 2", "2..3 2", "2..3 2"),
    "an expected rank is the rank": ("2 3", None, "? 3", "2 3"),
    "an unknown rank": (None, None, "4 1..3", "4 1..3"),
    "a number": ("? 3", "-1", "6", "6"),
}


@pytest.mark.parametrize(("data", "target", "expected", "output"), EXPECTED.values(), ids=EXPECTED.keys())
def test_an_expected_shape_narrows_the_answer(data: str | None, target: str | None, expected: str, output: str):
    assert ask(RESHAPE, data, target, False, expected) == read(output)


def test_the_largest_rank_of_unknown_dims_is_answered():
    assert ask(RESHAPE, "? " * 64, "0 " * 63 + "-1", True) == [None] * 64


def test_the_largest_rank_of_copies_that_divide_is_answered():
    assert ask(STATIC_RESHAPE, "? " * 12, "0 " * 11 + "-1", True) == [Dim(Interval(1, None))] * 11 + [None]
