"""What is refused of shapes that are known in part, and what the refusal blames."""

import pytest

from tensor_reshape.rules.dims import AnyDim, Interval, find_bounds
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import Question


def read(text: str | None) -> list[AnyDim] | None:
    return None if text is None else [parse_dim(dim) for dim in text.split()]


# data, target, special_zero, expected; reason, field
REFUSALS: dict[str, tuple[str | None, str | None, bool, str | None, Reason, str]] = {
    "below -1": ("? 3", "-2 ?", False, None, Reason.INVALID_TARGET_VALUE, "shape[0]"),
    "below -1 of unknown rank": (None, "3 -7", False, None, Reason.INVALID_TARGET_VALUE, "shape[1]"),
    "a second -1": ("?", "-1 -1", False, None, Reason.MULTIPLE_MINUS_ONE, "shape[1]"),
    "a second -1 of unknown rank": (None, "-1 ? -1", False, None, Reason.MULTIPLE_MINUS_ONE, "shape[2]"),
    "a copy beyond the rank": ("?", "? 0", True, None, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[1]"),
    "a literal 0 beside a -1": ("?", "0 -1", False, None, Reason.MINUS_ONE_WITH_ZERO_VOLUME, "shape[1]"),
    "a remainder": ("7 1..2", "-1 5", False, None, Reason.NOT_DIVISIBLE, "shape[0]"),
    "volumes apart": ("3..5 2", "1..2 2", False, None, Reason.VOLUME_MISMATCH, "shape"),
    "no multiple": ("? 3", "2", False, None, Reason.VOLUME_MISMATCH, "shape"),
    "another expected rank": ("?", "-1", False, "2 2", Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape"),
    "another expected dim": ("1..3", "-1", False, "4", Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape.dims[0]"),
    "a symbol of two sizes": ("N:1..2", "N:3..4", False, None, Reason.SYMBOL_CONFLICT, "shape[0]"),
    "an empty interval": ("4..3", "-1", False, None, Reason.INTERVAL_EMPTY, "data.dims[0]"),
    "an empty length": ("?", "4..3", False, None, Reason.INTERVAL_EMPTY, "shape[0]"),
    "an empty expected dim": ("?", "?", False, "4..3", Reason.INTERVAL_EMPTY, "expected_shape.dims[0]"),
    "an expression that no s64 holds": (f"N:4.. {2**62}*N", "0 0", True, None, Reason.DIM_OUT_OF_RANGE, "data.dims[1]"),
    "such an expression under nothing": (f"N:4.. {2**62}*N", None, True, None, Reason.DIM_OUT_OF_RANGE, "data.dims[1]"),
    "such an expression of no elements": (
        f"0 {2**62}*N N:4..",
        "0",
        True,
        None,
        Reason.DIM_OUT_OF_RANGE,
        "data.dims[1]",
    ),
    "such a length": ("?", f"{2**62}*N/2 N:4..", True, None, Reason.DIM_OUT_OF_RANGE, "shape[0]"),
    "names made too large elsewhere": (
        "N*M",
        f"N:{2**32}.. M:{2**32}..",
        True,
        None,
        Reason.DIM_OUT_OF_RANGE,
        "data.dims[0]",
    ),
    "an expression outside its bounds": (
        "N*M:10.. N:0..2 M:0..2",
        "?",
        True,
        None,
        Reason.SYMBOL_CONFLICT,
        "data.dims[0]",
    ),
    "a divisor of 0": ("N:0..0 6/N", "?", True, None, Reason.SYMBOL_CONFLICT, "data.dims[1]"),
    "a dim that no s64 holds": (f"{2**62}..{2**62 + 9} 4", "-1", False, None, Reason.DIM_OVERFLOW, "shape[0]"),
}


@pytest.mark.parametrize(
    ("data", "target", "special_zero", "expected", "reason", "field"), REFUSALS.values(), ids=REFUSALS.keys()
)
def test_a_question_is_refused(
    data: str | None, target: str | None, special_zero: bool, expected: str | None, reason: Reason, field: str
):
    question = Question(
        operation=RESHAPE, data=read(data), target=read(target), special_zero=special_zero, expected=read(expected)
    )
    with pytest.raises(InvalidRequestError) as caught:
        infer(question)
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_special_zero_is_required():
    with pytest.raises(InvalidRequestError) as caught:
        infer(Question(operation=RESHAPE, data=None, target=None, special_zero=None))
    assert caught.value.reason == Reason.SPECIAL_ZERO_MISSING


def test_the_data_type_is_checked():
    question = Question(operation=STATIC_RESHAPE, data=None, target=None, special_zero=True, data_type=DataType.I32)
    with pytest.raises(InvalidRequestError) as caught:
        infer(question)
    assert caught.value.reason == Reason.DATA_TYPE_UNSUPPORTED


@pytest.mark.parametrize(("data", "target"), [([None] * 65, [-1]), (None, [None] * 65)], ids=["data", "target"])
def test_a_rank_above_the_limit_is_refused(data: list[AnyDim] | None, target: list[AnyDim]):
    with pytest.raises(LimitError) as caught:
        infer(Question(operation=RESHAPE, data=data, target=target, special_zero=True))
    assert caught.value.reason == Reason.RANK_LIMIT_EXCEEDED


# data, target, output
HUGE: dict[str, tuple[str, str, str]] = {
    "an expression that may be 0": (f"{2**62}*N", "0", f"{2**62}*N"),
    "one that must be 0 or 1": (f"{2**62}*N 2", "0 2", f"{2**62}*N 2"),
    "a divisor that is large enough": (f"{2**62}*N/M M:8.. N:4..8", "0 0 0", f"{2**62}*N/M M:8.. N:4..8"),
}


@pytest.mark.parametrize(("data", "target", "output"), HUGE.values(), ids=HUGE.keys())
def test_a_huge_expression_that_may_be_a_dim_is_answered(data: str, target: str, output: str):
    dims = infer(Question(RESHAPE, read(data), read(target), special_zero=True)).dims
    assert [str(dim) for dim in dims or ()] == [str(dim) for dim in read(output) or ()]


def test_what_divides_is_not_0():
    dims = infer(Question(RESHAPE, read("N 6/N"), read("0 0"), special_zero=True)).dims
    assert [find_bounds(dim) for dim in dims or ()] == [Interval(1, None), Interval(1, 6)]
