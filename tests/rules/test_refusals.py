"""Each refusal of a target blames one item, shows the whole question short, and has its values as metadata."""

from tensor_reshape.rules import refusals
from tensor_reshape.rules.dims import AnyDim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

DATA: list[AnyDim] = [name_dim("N"), 3, None]
QUESTION: AnyQuestion = Question(RESHAPE, DATA, [-1, 0, 7], special_zero=True)
SHOWN = {"shape": "[-1, 0, 7]", "data": "[N, 3, ?]"}

# the refusal; reason, field, message without the question, metadata without the question
ITEMS: list[tuple[InvalidRequestError, Reason, str, str, dict[str, str]]] = [
    (
        refusals.refuse_value(QUESTION, 2),
        Reason.INVALID_TARGET_VALUE,
        "shape[2]",
        "shape[2] is 7: a target value lies from -1 to 2^63 - 1",
        {"index": "2", "value": "7"},
    ),
    (
        refusals.refuse_copy(QUESTION, 1),
        Reason.ZERO_INDEX_OUT_OF_RANGE,
        "shape[1]",
        "shape[1] is 0: special_zero copies data dim 1, but the data has rank 3",
        {"index": "1", "value": "0", "rank": "3"},
    ),
    (
        refusals.refuse_second_minus_one(QUESTION, 0, 2),
        Reason.MULTIPLE_MINUS_ONE,
        "shape[2]",
        "shape[2] is 7: only one dim can be inferred, and shape[0] is -1 already",
        {"index": "2", "value": "7", "first": "0"},
    ),
    (
        refusals.refuse_zero_volume(QUESTION, 0),
        Reason.MINUS_ONE_WITH_ZERO_VOLUME,
        "shape[0]",
        "shape[0] is -1: the other items have the product 0, so this dim cannot be inferred",
        {"index": "0", "value": "-1"},
    ),
    (
        refusals.refuse_remainder(QUESTION, 0, "N", 7),
        Reason.NOT_DIVISIBLE,
        "shape[0]",
        "shape[0] is -1: N elements do not divide by 7, the product of the other items",
        {"index": "0", "value": "-1", "dividend": "N", "divisor": "7"},
    ),
    (
        refusals.refuse_overflow(QUESTION, 0, 2**63),
        Reason.DIM_OVERFLOW,
        "shape[0]",
        f"shape[0] is -1: the inferred dim {2**63} exceeds 2^63 - 1",
        {"index": "0", "value": "-1", "dim": str(2**63)},
    ),
]


def test_a_refusal_of_an_item_names_it_and_shows_the_question():
    for error, reason, field, message, metadata in ITEMS:
        assert (error.reason, error.field) == (reason, field)
        assert error.message == f"{message}; shape [-1, 0, 7], data [N, 3, ?]"
        assert error.metadata == metadata | SHOWN
    assert refusals.refuse_value(QUESTION._replace(data=None), 2).metadata["data"] == "[...]"


def test_a_refusal_of_a_volume_has_both_volumes():
    error = refusals.refuse_volume(QUESTION, "N*3", 7)
    assert (error.reason, error.field) == (Reason.VOLUME_MISMATCH, "shape")
    assert error.message == "shape [-1, 0, 7] asks for 7 elements; data of shape [N, 3, ?] has N*3"
    assert error.metadata == {"have": "N*3", "want": "7"} | SHOWN


def test_a_refusal_of_an_expected_shape_has_both_shapes():
    rank, dim, volume = (
        refusals.refuse_expected_rank([3, 4], [None]),
        refusals.refuse_expected(1, 4, 5),
        refusals.refuse_expected_volume([None, 3], [2, None], "N"),
    )
    assert {error.reason for error in (rank, dim, volume)} == {Reason.EXPECTED_SHAPE_MISMATCH}
    assert (rank.field, rank.metadata) == ("expected_shape", {"have": "[3, 4]", "want_rank": "1"})
    assert (dim.field, dim.metadata) == ("expected_shape.dims[1]", {"index": "1", "have": "4", "want": "5"})
    assert dim.message == "the output dim 1 is 4; expected_shape.dims[1] is 5"
    assert volume.metadata == {"have": "[?, 3]", "want": "[2, ?]", "volume": "N"}


def test_an_expression_that_no_dim_can_be_is_out_of_range_or_contradicts_itself():
    above = refusals.refuse_expression("data.dims[0]", 0, DATA[0], Interval(2**63, 2**63 - 1))
    assert (above.reason, above.metadata["min"]) == (Reason.DIM_OUT_OF_RANGE, str(2**63))
    outside = refusals.refuse_expression("shape[1]", 1, DATA[0], Interval(5, 4))
    assert (outside.reason, outside.field) == (Reason.SYMBOL_CONFLICT, "shape[1]")
    assert outside.metadata == {"index": "1", "value": "N", "min": "5", "max": "4"}
