"""Rule 4: the output has the volume of the data."""

from math import prod

import pytest
from hypothesis import given, settings

from shape_questions import operations, questions
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.operations import OPERATIONS, Operation
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
MAX = 2**63 - 1


# data, target, special_zero, output: the same for all operations
TRUTHS: dict[str, tuple[Dims, Dims, bool, Dims]] = {
    "explicit dims": ((2, 3, 4), (4, 6), False, (4, 6)),
    "explicit dims with special_zero": ((2, 3, 4), (4, 6), True, (4, 6)),
    "the same shape": ((2, 3), (2, 3), False, (2, 3)),
    "one element is a scalar": ((1, 1), (), False, ()),
    "a scalar stays a scalar": ((), (), True, ()),
    "a scalar becomes (1)": ((), (1,), False, (1,)),
    "a scalar becomes (1,1)": ((), (1, 1), True, (1, 1)),
    "a literal 0": ((0, 3), (5, 0), False, (5, 0)),
    "a literal 0 beyond the rank": ((0,), (7, 9, 0), False, (7, 9, 0)),
    "literal zeros alone": ((0, 2), (0, 0), False, (0, 0)),
    "zero volume with a huge dim": ((0,), (2**62, 4, 0), False, (2**62, 4, 0)),
    "huge dims of zero volume as data": ((MAX, MAX, 0), (0,), False, (0,)),
    "the largest dim": ((MAX,), (1, MAX), False, (1, MAX)),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "output"), TRUTHS.values(), ids=TRUTHS.keys())
def test_an_output_of_the_volume_of_the_data_is_admitted(
    operation: Operation, data: Dims, target: Dims, special_zero: bool, output: Dims
):
    assert ask_known(operation, data, target, special_zero) == output


# data, target, special_zero, output: the same for all operations
PARTIAL_TRUTHS: dict[str, tuple[str | None, str | None, bool, str | None]] = {
    "nothing is known": (None, None, True, None),
    "no item is known": ("2 3", None, False, None),
    "everything is known": ("2 3", "3 2", False, "3 2"),
    "one item is left": ("2 3", "?", False, "6"),
    "one unknown item beside a known one": ("2 3", "3 ?", False, "3 2"),
    "an unknown item divides": ("12", "? ?", False, "1..12 1..12"),
    "an open length is what is left": ("2 3", "3 0..", False, "3 2"),
    "a length is no wider than the volume": ("2..3", "1..9", False, "2..3"),
    "a literal 0": ("? 3", "0 7", False, "0 7"),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(
    ("data", "target", "special_zero", "output"), PARTIAL_TRUTHS.values(), ids=PARTIAL_TRUTHS.keys()
)
def test_an_output_is_what_may_have_the_volume_of_the_data(
    operation: Operation, data: str | None, target: str | None, special_zero: bool, output: str | None
):
    assert ask(operation, data, target, special_zero) == read_shape(output)


# data, target, special_zero; reason, field, a part of the metadata: the same for all operations
REFUSALS: dict[str, KnownRefusal] = {
    'other volume': (
        (2, 3), (2, 2), False,
        Reason.VOLUME_MISMATCH, "shape", {"have": "6", "want": "4", "data": "[2, 3]", "shape": "[2, 2]"},
    ),
    'other volume beside a copy': (
        (2, 3), (0, 2), True, Reason.VOLUME_MISMATCH, "shape", {"have": "6", "want": "4", "shape": "[0, 2]"}
    ),
    'a scalar of two elements': ((2,), (), False, Reason.VOLUME_MISMATCH, "shape", {"have": "2", "want": "1"}),
    'a scalar of none': ((0,), (), True, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": "1"}),
    'empty data, full target': ((0, 3), (3,), False, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": "3"}),
    'full data, empty target': ((3,), (3, 0), False, Reason.VOLUME_MISMATCH, "shape", {"have": "3", "want": "0"}),
    'a volume that is 0 in 64 bits': (
        (0,), (2**32, 2**32), False, Reason.VOLUME_MISMATCH, "shape", {"have": "0", "want": str(2**64)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize("row", REFUSALS.values(), ids=REFUSALS.keys())
def test_another_volume_is_refused(operation: Operation, row: KnownRefusal):
    check_known_refusal(operation, row)


# data, target, special_zero, expected; reason, field
PARTIAL_REFUSALS: dict[str, PartialRefusal] = {
    "volumes apart": ("3..5 2", "1..2 2", False, None, Reason.VOLUME_MISMATCH, "shape"),
    "no multiple": ("? 3", "2", False, None, Reason.VOLUME_MISMATCH, "shape"),
}


@pytest.mark.parametrize("row", PARTIAL_REFUSALS.values(), ids=PARTIAL_REFUSALS.keys())
def test_volumes_that_are_never_equal_are_refused(row: PartialRefusal):
    check_partial_refusal(row)


@settings(deadline=None)
@given(operations, questions())
def test_an_output_has_the_volume_of_the_data(operation: Operation, question: tuple[Dims, Dims, bool]):
    output = answer_or_refusal(operation, *question)
    assert output is None or prod(output) == prod(question[0])


@settings(deadline=None)
@given(operations, questions())
def test_an_output_asked_for_literally_is_admitted_again(operation: Operation, question: tuple[Dims, Dims, bool]):
    output = answer_or_refusal(operation, *question)
    if output is not None:
        assert ask_known(operation, question[0], output, special_zero=False) == output
