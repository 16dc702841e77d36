"""Rule 5: the output is the expected shape, where the caller declared one."""

import pytest

from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from written_questions import Dims, PartialRefusal, ask, ask_known, check_partial_refusal, read_shape

EVERY = tuple(OPERATIONS.values())
MAX = 2**63 - 1


# data, target, expected
HELD: dict[str, tuple[Dims, Dims, tuple[int | None, ...]]] = {
    "the very shape": ((2, 6), (3, -1), (3, 4)),
    "one unknown dim": ((2, 6), (3, -1), (3, None)),
    "only unknown dims": ((2, 6), (3, -1), (None, None)),
    "a scalar": ((1,), (), ()),
    "a dim of 0": ((0, 6), (3, -1), (3, 0)),
    "the largest dim": ((MAX,), (MAX, 1), (MAX, None)),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "expected"), HELD.values(), ids=HELD.keys())
def test_an_expected_shape_that_holds_changes_nothing(
    operation: Operation, data: Dims, target: Dims, expected: tuple[int | None, ...]
):
    question = Question(operation=operation, data=data, target=target, special_zero=False, expected=expected)
    assert infer_shape(question) == ask_known(operation, data, target, special_zero=False)


# expected; field, metadata; data (2, 6), target (3, -1), which gives (3, 4)
REFUSED: dict[str, tuple[tuple[int | None, ...], str, dict[str, str]]] = {
    "a scalar": ((), "expected_shape", {"have": "[3, 4]", "want_rank": "0"}),
    "lower rank": ((12,), "expected_shape", {"have": "[3, 4]", "want_rank": "1"}),
    "higher rank, of unknown dims": ((None, None, None), "expected_shape", {"want_rank": "3"}),
    "first dim": ((4, 4), "expected_shape.dims[0]", {"index": "0", "have": "3", "want": "4"}),
    "last dim": ((None, 5), "expected_shape.dims[1]", {"index": "1", "have": "4", "want": "5"}),
    "the first of two": ((1, 1), "expected_shape.dims[0]", {"index": "0"}),
    "-1 is a value, not an unknown dim": ((3, -1), "expected_shape.dims[1]", {"want": "-1"}),
    "0 is a value, not an unknown dim": ((0, 4), "expected_shape.dims[0]", {"want": "0"}),
}


@pytest.mark.parametrize(("expected", "field", "metadata"), REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
def test_an_expected_shape_that_does_not_hold_is_refused(
    operation: Operation, expected: tuple[int | None, ...], field: str, metadata: dict[str, str]
):
    question = Question(operation=operation, data=(2, 6), target=(3, -1), special_zero=False, expected=expected)
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question)
    assert (caught.value.reason, caught.value.field) == (Reason.EXPECTED_SHAPE_MISMATCH, field)
    assert metadata.items() <= caught.value.metadata.items()


def test_minus_1_is_told_what_to_write_instead():
    question = Question(operation=RESHAPE, data=(2, 6), target=(3, -1), special_zero=False, expected=(3, -1))
    with pytest.raises(InvalidRequestError, match=r"expected_shape\.dims\[1\] is -1; write None, or \? as text"):
        infer_shape(question)


# data, target, expected, output of Reshape-1 without special_zero
EXPECTED: dict[str, tuple[str | None, str | None, str, str]] = {
    "an expected dim narrows": ("?", "-1 2", "2..3 2", "2..3 2"),
    "an expected rank is the rank": ("2 3", None, "? 3", "2 3"),
    "an unknown rank": (None, None, "4 1..3", "4 1..3"),
    "a number": ("? 3", "-1", "6", "6"),
}


@pytest.mark.parametrize(("data", "target", "expected", "output"), EXPECTED.values(), ids=EXPECTED.keys())
def test_an_expected_shape_narrows_the_answer(data: str | None, target: str | None, expected: str, output: str):
    assert ask(RESHAPE, data, target, False, expected) == read_shape(output)


# data, target, special_zero, expected; reason, field
PARTIAL_REFUSALS: dict[str, PartialRefusal] = {
    "another expected rank": ("?", "-1", False, "2 2", Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape"),
    "another expected dim": ("1..3", "-1", False, "4", Reason.EXPECTED_SHAPE_MISMATCH, "expected_shape.dims[0]"),
}


@pytest.mark.parametrize("row", PARTIAL_REFUSALS.values(), ids=PARTIAL_REFUSALS.keys())
def test_an_expected_shape_that_cannot_be_is_refused(row: PartialRefusal):
    check_partial_refusal(row)
