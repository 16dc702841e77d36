"""Rule 2: left to right, each item of the target is a dim, a copy, or one -1."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shape_questions import any_dims, operations, questions, small_dims
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE, Operation
from tensor_reshape.rules.questions import Question
from written_questions import (
    Dims,
    KnownRefusal,
    PartialRefusal,
    answer_or_refusal,
    ask,
    ask_known,
    check_known_refusal,
    check_partial_refusal,
    read_shape,
)

EVERY = tuple(OPERATIONS.values())


# data, target, special_zero, output: the same for all operations
TRUTHS: dict[str, tuple[Dims, Dims, bool, Dims]] = {
    "copy everything": ((2, 3, 4), (0, 0, 0), True, (2, 3, 4)),
    "copy and append ones": ((2, 3), (0, 0, 1, 1), True, (2, 3, 1, 1)),
    "copy past a given dim": ((2, 3, 4), (2, 0, 4), True, (2, 3, 4)),
    "copy a dim of 0": ((0, 3), (0, 7), True, (0, 7)),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "output"), TRUTHS.values(), ids=TRUTHS.keys())
def test_a_copied_dim_is_that_of_the_data(
    operation: Operation, data: Dims, target: Dims, special_zero: bool, output: Dims
):
    assert ask_known(operation, data, target, special_zero) == output


# data, target, special_zero, output: the same for all operations
PARTIAL_TRUTHS: dict[str, tuple[str | None, str | None, bool, str | None]] = {
    "an unknown rank, copied": (None, "3 0", True, "3 ?"),
    "copies keep their bounds": ("2..5 ?", "0 0", True, "2..5 ?"),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("data", "target", "special_zero", "output"), PARTIAL_TRUTHS.values(), ids=PARTIAL_TRUTHS.keys()
)
def test_a_copied_dim_is_all_that_is_known_of_that_of_the_data(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, output: str | None
):
    assert ask(operation, data, target, special_zero) == read_shape(output)


# data, target, special_zero; reason, field, a part of the metadata: the same for all operations
REFUSALS: dict[str, KnownRefusal] = {
    'below -1': (
        (2,), (1, -2), False,
        Reason.INVALID_TARGET_VALUE, "shape[1]", {"index": "1", "value": "-2", "shape": "[1, -2]", "data": "[2]"},
    ),
    'the lowest s64': (
        (2,), (-(2**63),), True, Reason.INVALID_TARGET_VALUE, "shape[0]", {"value": "-9223372036854775808"}
    ),
    'above 2^63 - 1': (
        (2,), (2, 2**63), False, Reason.INVALID_TARGET_VALUE, "shape[1]", {"value": "9223372036854775808"}
    ),
    'the highest u64': ((0,), (0, 2**64 - 1), False, Reason.INVALID_TARGET_VALUE, "shape[1]", {"index": "1"}),
    'a copy at the rank': (
        (2,), (0, 0), True,
        Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[1]", {"index": "1", "value": "0", "rank": "1"},
    ),
    'a copy of a scalar': ((), (0,), True, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[0]", {"index": "0", "rank": "0"}),
    'a copy beyond the rank of empty data': (
        (0,), (1, 1, 0), True, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[2]", {"index": "2", "rank": "1"}
    ),
    'a second -1': (
        (4,), (-1, 2, -1), False, Reason.MULTIPLE_MINUS_ONE, "shape[2]", {"index": "2", "value": "-1", "first": "0"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS.keys())
def test_an_item_is_refused(operation: Operation, row: KnownRefusal):
    check_known_refusal(operation, row)


# data, target, special_zero, expected; reason, field
PARTIAL_REFUSALS: dict[str, PartialRefusal] = {
    "below -1": ("? 3", "-2 ?", False, None, Reason.INVALID_TARGET_VALUE, "shape[0]"),
    "below -1 of unknown rank": (None, "3 -7", False, None, Reason.INVALID_TARGET_VALUE, "shape[1]"),
    "a second -1": ("?", "-1 -1", False, None, Reason.MULTIPLE_MINUS_ONE, "shape[1]"),
    "a second -1 of unknown rank": (None, "-1 ? -1", False, None, Reason.MULTIPLE_MINUS_ONE, "shape[2]"),
    "a copy beyond the rank": ("?", "? 0", True, None, Reason.ZERO_INDEX_OUT_OF_RANGE, "shape[1]"),
}


@pytest.mark.parametrize("row", PARTIAL_REFUSALS.values(), ids=PARTIAL_REFUSALS.keys())
def test_an_item_is_refused_whatever_the_data_is(row: PartialRefusal):
    check_partial_refusal(row)


def test_a_length_that_may_be_0_is_no_copy():
    assert ask(RESHAPE, "3 0..1", "0..1 3", True) == read_shape("0..1 3")


def test_an_integer_of_any_size_is_refused_as_a_request():
    question = Question(operation=RESHAPE, data=(6,), target=(10**5000,), special_zero=False)
    with pytest.raises(InvalidRequestError) as caught:
        infer_shape(question)
    assert caught.value.reason == Reason.INVALID_TARGET_VALUE


@settings(deadline=None)
@given(operations, questions())
def test_an_output_keeps_each_item_that_is_given_and_copies_each_that_is_asked_for(
    operation: Operation, question: tuple[Dims, Dims, bool]
):
    data, target, special_zero = question
    output = answer_or_refusal(operation, data, target, special_zero)
    if output is not None:
        expected = [data[at] if item == 0 and special_zero else item for at, item in enumerate(target)]
        assert [have for have, want in zip(output, expected, strict=True) if want != -1] == [
            want for want in expected if want != -1
        ]


@settings(deadline=None)
@given(operations, any_dims)
def test_copying_every_dim_changes_nothing(operation: Operation, data: Dims):
    assert ask_known(operation, data, (0,) * len(data), special_zero=True) == data


@settings(deadline=None)
@given(operations, small_dims, st.lists(st.integers(-1, 4), max_size=5).map(tuple))
def test_without_a_zero_in_the_target_special_zero_means_nothing(operation: Operation, data: Dims, target: Dims):
    target = tuple(item or 1 for item in target)
    copies = answer_or_refusal(operation, data, target, special_zero=True)
    assert copies == answer_or_refusal(operation, data, target, special_zero=False)
