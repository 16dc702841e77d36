"""A request that breaks two rules is refused for the first of them, in the order of its kind of question."""

import pytest

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, KnownQuestion, Question

# Each breaks the rule of its own reason and that of the next one.
ORDER: dict[str, tuple[Reason, KnownQuestion]] = {
    "type before special_zero": (
        Reason.DATA_TYPE_UNSUPPORTED,
        Question(operation=STATIC_RESHAPE, data=(), target=(), special_zero=None, data_type=DataType.F64),
    ),
    "special_zero before rank": (
        Reason.SPECIAL_ZERO_MISSING,
        Question(operation=STATIC_RESHAPE, data=(1,) * 13, target=(), special_zero=None),
    ),
    "rank before the data's dims": (
        Reason.RANK_UNSUPPORTED,
        Question(operation=STATIC_RESHAPE, data=(-1,), target=(1,) * 13, special_zero=False),
    ),
    "the server's rank before the data's dims": (
        Reason.RANK_LIMIT_EXCEEDED,
        Question(operation=RESHAPE, data=(-1,), target=(-2,) * 65, special_zero=False),
    ),
    "the data's dims before the target": (
        Reason.DIM_OUT_OF_RANGE,
        Question(operation=RESHAPE, data=(2**63,), target=(-2,), special_zero=False),
    ),
}

# data, target, special_zero, reason
WALK: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool, Reason]] = {
    "left to right: value, copy": ((1,), (-2, 0), True, Reason.INVALID_TARGET_VALUE),
    "left to right: copy, value": ((), (0, -2), True, Reason.ZERO_INDEX_OUT_OF_RANGE),
    "left to right: second -1, value": ((1,), (-1, -1, -2), True, Reason.MULTIPLE_MINUS_ONE),
    "left to right: value, second -1": ((1,), (-1, -2, -1), True, Reason.INVALID_TARGET_VALUE),
    "left to right: second -1, copy": ((1,), (-1, -1, 0), True, Reason.MULTIPLE_MINUS_ONE),
    "left to right: copy, second -1": ((1,), (-1, 0, -1), True, Reason.ZERO_INDEX_OUT_OF_RANGE),
    "the walk before the division": ((3,), (2, -1, -2), False, Reason.INVALID_TARGET_VALUE),
    "the walk before the product of 0": ((3,), (0, -1, -1), False, Reason.MULTIPLE_MINUS_ONE),
    "the walk before the volume": ((3,), (5, -2), False, Reason.INVALID_TARGET_VALUE),
    "the product of 0 before the volume": ((3,), (0, -1), False, Reason.MINUS_ONE_WITH_ZERO_VOLUME),
    "the division before the dim that overflows": ((2**62, 2**62, 5), (3, -1), False, Reason.NOT_DIVISIBLE),
}


@pytest.mark.parametrize(("reason", "question"), ORDER.values(), ids=ORDER.keys())
def test_what_is_asked_is_checked_in_order(reason: Reason, question: KnownQuestion):
    with pytest.raises(ReshapeError) as caught:
        infer_shape(question)
    assert caught.value.reason == reason


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "reason"), WALK.values(), ids=WALK.keys())
def test_the_target_is_checked_in_order(
    operation: Operation, data: tuple[int, ...], target: tuple[int, ...], special_zero: bool, reason: Reason
):
    # The expected shape is wrong as well: it is checked last.
    question = Question(operation=operation, data=data, target=target, special_zero=special_zero, expected=(1,) * 9)
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question)
    assert caught.value.reason == reason
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question._replace(expected=None))
    assert caught.value.reason == reason


def test_the_volume_is_checked_before_the_expected_shape():
    question = Question(operation=RESHAPE, data=(6,), target=(5,), special_zero=False, expected=(6,))
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question)
    assert caught.value.reason == Reason.VOLUME_MISMATCH


def ask(
    data: tuple[AnyDim, ...],
    target: tuple[AnyDim, ...],
    expected: tuple[AnyDim, ...] | None = None,
    *,
    special_zero: bool | None = False,
) -> AnyQuestion:
    return Question(RESHAPE, data, target, special_zero, expected=expected)


LOW, HIGH = name_dim("N", 1, 2), name_dim("N", 4, 5)  # nothing is left of N where both are said
TOO_LARGE = Dim(ANY, make_expression(2**62, [Symbol("M", Interval(4, 5))]))

# As `ORDER`, where something is unknown: the order is another one.
PARTIAL: dict[str, tuple[Reason, AnyQuestion]] = {
    "special_zero before a dim": (Reason.SPECIAL_ZERO_MISSING, ask((None, -1), (1,), special_zero=None)),
    "a dim before the symbols": (Reason.DIM_OUT_OF_RANGE, ask((LOW, HIGH), (1,), (-1,))),
    "the data's symbols before the target": (Reason.SYMBOL_CONFLICT, ask((LOW, HIGH), (-2,))),
    "left to right: symbol, value": (Reason.SYMBOL_CONFLICT, ask((LOW,), (HIGH, -2))),
    "left to right: value, symbol": (Reason.INVALID_TARGET_VALUE, ask((LOW,), (-2, HIGH))),
    "the walk before the product of 0": (Reason.INVALID_TARGET_VALUE, ask((None,), (0, -1, -2))),
    "the product of 0 before the expected rank": (Reason.MINUS_ONE_WITH_ZERO_VOLUME, ask((None,), (0, -1), (1,))),
    "the expected rank before an expression": (Reason.EXPECTED_SHAPE_MISMATCH, ask((3,), (TOO_LARGE,), (1, 1))),
    "an expected dim before an expression": (Reason.EXPECTED_SHAPE_MISMATCH, ask((3,), (TOO_LARGE, 2), (None, 3))),
    "an expression before the volume": (Reason.DIM_OUT_OF_RANGE, ask((3,), (TOO_LARGE, 2))),
}


@pytest.mark.parametrize(("reason", "question"), PARTIAL.values(), ids=PARTIAL.keys())
def test_a_question_with_an_unknown_dim_is_checked_in_an_order_of_its_own(reason: Reason, question: AnyQuestion):
    with pytest.raises(ReshapeError) as caught:
        infer(question)
    assert caught.value.reason == reason


def test_the_expected_dims_of_a_known_question_are_checked_first():
    with pytest.raises(ReshapeError) as caught:
        infer(ask((2,), (2,), (-1,), special_zero=None))
    assert caught.value.reason == Reason.DIM_OUT_OF_RANGE
