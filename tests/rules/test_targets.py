"""What each item of a target is read as, whatever the solvers make of it."""

from collections.abc import Sequence

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Kind, Question
from tensor_reshape.rules.targets import Target, balance, read_target

LITERAL, COPIED, INFERRED, LENGTH, UNKNOWN = Kind


def read(
    data: Sequence[AnyDim] | None,
    items: Sequence[AnyDim],
    *,
    special_zero: bool = True,
    operation: Operation = RESHAPE,
) -> Target[AnyDim]:
    question: AnyQuestion = Question(operation, data, items, special_zero)
    return read_target(question, items)


# item of a target [item], of data [7]; its kind with and without special_zero
KINDS: dict[str, tuple[AnyDim, Kind, Kind]] = {
    "a number": (4, LITERAL, LITERAL),
    "the largest dim": (2**63 - 1, LITERAL, LITERAL),
    "a 0": (0, COPIED, LITERAL),
    "a -1": (-1, INFERRED, INFERRED),
    "an interval": (Dim(Interval(2, 3)), LENGTH, LENGTH),
    "an interval of 0 alone": (Dim(Interval(0, 0)), LENGTH, LENGTH),
    "a symbol": (name_dim("N"), LENGTH, LENGTH),
    "nothing": (None, UNKNOWN, UNKNOWN),
}


@pytest.mark.parametrize(("item", "with_copies", "without"), KINDS.values(), ids=KINDS.keys())
def test_an_item_has_one_kind(item: AnyDim, with_copies: Kind, without: Kind):
    kinds = [read([7], [item], special_zero=special_zero).kinds[0] for special_zero in (True, False)]
    assert kinds == [with_copies, without]


def test_a_copied_dim_is_that_of_the_data():
    assert read([name_dim("N"), 4], [0, 0, 3, -1]).dims == [name_dim("N"), 4, 3, -1]


def test_a_copied_dim_of_an_unknown_rank_is_unknown():
    assert read(None, [0, 3]).dims == [None, 3]


@pytest.mark.parametrize(
    ("items", "product"), [([], 1), ([2, 3], 6), ([2, 0, -1], 2), ([None, 5, Dim(Interval(1, 2))], 5)], ids=str
)
def test_the_product_is_that_of_the_literals(items: list[AnyDim], product: int):
    assert read([1, 1], items).product == product


def test_a_literal_0_makes_the_product_0():
    assert read([1], [3, 0], special_zero=False).product == 0


@pytest.mark.parametrize("operation", [RESHAPE, STATIC_RESHAPE, DYNAMIC_RESHAPE], ids=lambda one: one.name)
def test_only_reshape_cancels_copies_beside_a_minus_one(operation: Operation):
    beside, alone = read([2, 3], [0, -1], operation=operation), read([2, 3], [0, 3], operation=operation)
    assert (list(beside.cancelled), list(alone.cancelled)) == ([0] if operation is RESHAPE else [], [])


# data, items, operation; left, right
SIDES: dict[str, tuple[list[AnyDim], list[AnyDim], Operation, list[AnyDim], list[AnyDim]]] = {
    "no -1": ([2, 3], [0, 3], RESHAPE, [2, 3], [2, 3]),
    "a -1 is on neither side": ([2, 3], [3, -1], RESHAPE, [2, 3], [3]),
    "a copy that is cancelled": ([2, 3], [0, -1], RESHAPE, [3], []),
    "a copy that divides": ([2, 3], [0, -1], STATIC_RESHAPE, [2, 3], [2]),
}


@pytest.mark.parametrize(("data", "items", "operation", "left", "right"), SIDES.values(), ids=SIDES.keys())
def test_the_sides_are_what_is_not_cancelled(
    data: list[AnyDim], items: list[AnyDim], operation: Operation, left: list[AnyDim], right: list[AnyDim]
):
    assert [list(side) for side in balance(read(data, items, operation=operation), data)] == [left, right]


# items of data [7]; which ones have been read, reason
REFUSED: dict[str, tuple[list[AnyDim], list[Kind], Reason]] = {
    "a number below -1": ([2, -2, 3], [LITERAL], Reason.INVALID_TARGET_VALUE),
    "a number that no dim is": ([None, 2**63], [UNKNOWN], Reason.INVALID_TARGET_VALUE),
    "a copy beyond the rank": ([0, 0], [COPIED], Reason.ZERO_INDEX_OUT_OF_RANGE),
    "a second -1": ([-1, 1, -1, -5], [INFERRED, LITERAL], Reason.MULTIPLE_MINUS_ONE),
}


@pytest.mark.parametrize(("items", "kinds", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_is_held_with_the_items_before_it(items: list[AnyDim], kinds: list[Kind], reason: Reason):
    target = read([7], items)
    assert target.refusal is not None
    assert (target.kinds, target.refusal.reason, target.is_plain) == (kinds, reason, False)


@pytest.mark.parametrize(
    ("items", "is_plain"), [([2, 0, -1], True), ([], True), ([None], False), ([name_dim("N")], False)], ids=str
)
def test_numbers_above_0_copies_and_a_minus_one_are_plain(items: list[AnyDim], is_plain: bool):
    assert read([1, 1], items).is_plain is is_plain


def test_a_literal_0_is_not_plain():
    assert not read([1], [0], special_zero=False).is_plain


def test_unknown_items_may_copy_under_special_zero_alone():
    assert [list(read([2, 2], [None, 2, None], special_zero=flag).may_copy) for flag in (True, False)] == [[0, 2], []]


def test_an_item_that_is_supposed_to_be_the_minus_one_cancels_the_copies():
    supposed = read([2, 3, 4], [0, None, None]).suppose_inferred(1)
    assert (supposed.inferred, list(supposed.cancelled), supposed.may_copy) == (1, [0], [2])


def test_an_item_that_is_supposed_to_copy_is_cancelled_with_the_copies():
    supposed = read([2, 3, 4], [0, None, -1]).suppose_copied([1])
    assert (supposed.copied, supposed.cancelled, supposed.may_copy) == ([0, 1], [0, 1], [])
