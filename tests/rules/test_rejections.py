"""The error of a target names one item, shows the whole query in short form, and has its values as metadata.

`tests/e2e/test_reasons.py` tests the texts that a caller reads.
"""

from tensor_reshape.rules import rejections
from tensor_reshape.rules.dims import AnyDim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question

DATA: list[AnyDim] = [name_dim("N"), 3, None]
TARGET: list[AnyDim] = [-1, 0, 7]
QUESTION: AnyQuestion = Question(RESHAPE, DATA, TARGET, special_zero=True)
SHOWN = {"shape": "[-1, 0, 7]", "data": "[N, 3, ?]"}

# the error; reason, index of the item, metadata without the item and the query
ITEMS: list[tuple[InvalidRequestError, Reason, int, dict[str, str]]] = [
    (rejections.reject_item(Reason.INVALID_TARGET_VALUE, "", QUESTION, 2), Reason.INVALID_TARGET_VALUE, 2, {}),
    (
        rejections.reject_item(Reason.MULTIPLE_MINUS_ONE, "", QUESTION, 2, first=0),
        Reason.MULTIPLE_MINUS_ONE,
        2,
        {"first": "0"},
    ),
    (rejections.reject_zero_volume(QUESTION, 0), Reason.MINUS_ONE_WITH_ZERO_VOLUME, 0, {}),
    (rejections.reject_remainder(QUESTION, 0, "N", 7), Reason.NOT_DIVISIBLE, 0, {"dividend": "N", "divisor": "7"}),
    (rejections.reject_overflow(QUESTION, 0, 2**63), Reason.DIM_OVERFLOW, 0, {"dim": str(2**63)}),
]


def test_target_item_error_contains_the_item_and_the_query():
    for error, reason, index, metadata in ITEMS:
        assert (error.reason, error.field) == (reason, f"shape[{index}]")
        assert error.message.startswith(f"shape[{index}] is {TARGET[index]}: ")
        assert error.message.endswith("; requested shape [-1, 0, 7], input shape [N, 3, ?]")
        assert error.metadata == {"index": str(index), "value": str(TARGET[index])} | metadata | SHOWN
    assert rejections.reject_zero_volume(QUESTION._replace(data=None), 2).metadata["data"] == "[...]"


def test_volume_mismatch_error_has_both_volumes():
    error = rejections.reject_volume(QUESTION, "N*3", 7)
    assert (error.reason, error.field) == (Reason.VOLUME_MISMATCH, "shape")
    assert error.metadata == {"have": "N*3", "want": "7"} | SHOWN


def test_expected_shape_mismatch_error_has_both_shapes():
    rank, dim, volume = (
        rejections.reject_expected_rank([3, 4], [None]),
        rejections.reject_expected(1, 4, 5),
        rejections.reject_expected_volume([None, 3], [2, None], "N"),
    )
    assert {error.reason for error in (rank, dim, volume)} == {Reason.EXPECTED_SHAPE_MISMATCH}
    assert (rank.field, rank.metadata) == ("expected_shape", {"have": "[3, 4]", "want_rank": "1"})
    assert (dim.field, dim.metadata) == ("expected_shape.dims[1]", {"index": "1", "have": "4", "want": "5"})
    assert volume.metadata == {"have": "[?, 3]", "want": "[2, ?]", "volume": "N"}


def test_dim_expression_without_valid_values_is_rejected():
    above = rejections.reject_expression("data.dims[0]", 0, DATA[0], Interval(2**63, 2**63 - 1))
    assert (above.reason, above.metadata["min"]) == (Reason.DIM_OUT_OF_RANGE, str(2**63))
    outside = rejections.reject_expression("shape[1]", 1, DATA[0], Interval(5, 4))
    assert (outside.reason, outside.field) == (Reason.SYMBOL_CONFLICT, "shape[1]")
    assert outside.metadata == {"index": "1", "value": "N", "min": "5", "max": "4"}
