"""A refusal blames one item, and shows the whole question short."""

import pytest

from tensor_reshape.rules import refusals
from tensor_reshape.rules.dims import AnyDim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

DATA: list[AnyDim] = [name_dim("N"), 3, None]
TARGET: list[AnyDim] = [-1, 0, 7]
QUESTION: AnyQuestion = Question(RESHAPE, DATA, TARGET, special_zero=True)

# the refusal; reason, field, message
ITEMS: dict[str, tuple[InvalidRequestError, Reason, str, str]] = {
    "a value": (
        refusals.refuse_value(QUESTION, 2),
        Reason.INVALID_TARGET_VALUE,
        "shape[2]",
        "shape[2] is 7: a target value lies from -1 to 2^63 - 1; shape [-1, 0, 7], data [N, 3, ?]",
    ),
    "a copy": (
        refusals.refuse_copy(QUESTION, 1),
        Reason.ZERO_INDEX_OUT_OF_RANGE,
        "shape[1]",
        "shape[1] is 0: special_zero copies data dim 1, but the data has rank 3; shape [-1, 0, 7], data [N, 3, ?]",
    ),
    "a remainder": (
        refusals.refuse_remainder(QUESTION, 0, "N", 7),
        Reason.NOT_DIVISIBLE,
        "shape[0]",
        "shape[0] is -1: N elements do not divide by 7, the product of the other items; shape [-1, 0, 7], data [N, 3, ?]",  # noqa: E501 - a message
    ),
    "a volume": (
        refusals.refuse_volume(QUESTION, "N*3", 7),
        Reason.VOLUME_MISMATCH,
        "shape",
        "shape [-1, 0, 7] asks for 7 elements; data of shape [N, 3, ?] has N*3",
    ),
}


@pytest.mark.parametrize(("error", "reason", "field", "message"), ITEMS.values(), ids=ITEMS.keys())
def test_a_refusal_names_what_is_to_blame(error: InvalidRequestError, reason: Reason, field: str, message: str):
    assert (error.reason, error.field, error.message) == (reason, field, message)


def test_a_refusal_of_an_item_has_the_question_in_its_values():
    assert refusals.refuse_second_minus_one(QUESTION, 0, 2).metadata == {
        "index": "2",
        "value": "7",
        "shape": "[-1, 0, 7]",
        "data": "[N, 3, ?]",
        "first": "0",
    }


def test_an_unknown_rank_is_shown_as_dots():
    assert refusals.refuse_value(QUESTION._replace(data=None), 2).metadata["data"] == "[...]"


def test_an_expression_above_every_dim_is_out_of_range():
    error = refusals.refuse_expression("data.dims[0]", 0, DATA[0], Interval(2**63, 2**63 - 1))
    assert (error.reason, error.metadata["min"]) == (Reason.DIM_OUT_OF_RANGE, str(2**63))


def test_an_expression_outside_its_own_bounds_contradicts_itself():
    assert refusals.refuse_expression("shape[1]", 1, DATA[0], Interval(5, 4)).reason == Reason.SYMBOL_CONFLICT
