"""What each item of a target is read as, whatever the solvers make of it."""

from collections.abc import Sequence

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
KINDS: list[tuple[AnyDim, Kind, Kind]] = [
    (4, LITERAL, LITERAL),
    (2**63 - 1, LITERAL, LITERAL),
    (0, COPIED, LITERAL),
    (-1, INFERRED, INFERRED),
    (Dim(Interval(2, 3)), LENGTH, LENGTH),
    (Dim(Interval(0, 0)), LENGTH, LENGTH),
    (name_dim("N"), LENGTH, LENGTH),
    (None, UNKNOWN, UNKNOWN),
]


def test_an_item_has_one_kind():
    for item, *kinds in KINDS:
        assert [read([7], [item], special_zero=flag).kinds[0] for flag in (True, False)] == kinds, item


def test_a_copied_dim_is_that_of_the_data():
    assert read([name_dim("N"), 4], [0, 0, 3, -1]).dims == [name_dim("N"), 4, 3, -1]
    assert read(None, [0, 3]).dims == [None, 3]


def test_the_product_is_that_of_the_literals():
    products: list[tuple[list[AnyDim], int]] = [
        ([], 1),
        ([2, 3], 6),
        ([2, 0, -1], 2),
        ([None, 5, Dim(Interval(1, 2))], 5),
    ]
    assert [read([1, 1], items).product for items, _ in products] == [product for _, product in products]
    assert read([1], [3, 0], special_zero=False).product == 0


def test_only_reshape_cancels_copies_beside_a_minus_one():
    for operation in (RESHAPE, STATIC_RESHAPE, DYNAMIC_RESHAPE):
        beside, alone = read([2, 3], [0, -1], operation=operation), read([2, 3], [0, 3], operation=operation)
        assert (list(beside.cancelled), list(alone.cancelled)) == ([0] if operation is RESHAPE else [], [])


# items of data [2, 3], operation; left, right
SIDES: list[tuple[list[AnyDim], Operation, list[AnyDim], list[AnyDim]]] = [
    ([0, 3], RESHAPE, [2, 3], [2, 3]),
    ([3, -1], RESHAPE, [2, 3], [3]),  # a -1 is on neither side
    ([0, -1], RESHAPE, [3], []),  # a copy that is cancelled
    ([0, -1], STATIC_RESHAPE, [2, 3], [2]),  # a copy that divides
]


def test_both_sides_have_what_is_not_cancelled():
    for items, operation, left, right in SIDES:
        sides = balance(read([2, 3], items, operation=operation), [2, 3])
        assert [list(side) for side in sides] == [left, right], (items, operation)


# items of data [7]; which ones have been read, reason
REFUSED: list[tuple[list[AnyDim], list[Kind], Reason]] = [
    ([2, -2, 3], [LITERAL], Reason.INVALID_TARGET_VALUE),
    ([None, 2**63], [UNKNOWN], Reason.INVALID_TARGET_VALUE),
    ([0, 0], [COPIED], Reason.ZERO_INDEX_OUT_OF_RANGE),
    ([-1, 1, -1, -5], [INFERRED, LITERAL], Reason.MULTIPLE_MINUS_ONE),
    ([10**5000], [], Reason.INVALID_TARGET_VALUE),
]


def test_a_refusal_is_held_with_the_items_before_it():
    for items, kinds, reason in REFUSED:
        target = read([7], items)
        assert target.refusal is not None
        assert (target.kinds, target.refusal.reason, target.is_plain) == (kinds, reason, False)


def test_numbers_above_0_copies_and_a_minus_one_are_plain():
    plain: list[list[AnyDim]] = [[2, 0, -1], [], [None], [name_dim("N")]]
    assert [read([1, 1], items).is_plain for items in plain] == [True, True, False, False]
    assert not read([1], [0], special_zero=False).is_plain


def test_unknown_items_may_copy_only_under_special_zero():
    assert [list(read([2, 2], [None, 2, None], special_zero=flag).may_copy) for flag in (True, False)] == [[0, 2], []]


def test_a_supposed_minus_one_or_copy_cancels_as_a_written_one():
    supposed = read([2, 3, 4], [0, None, None]).suppose_inferred(1)
    assert (supposed.inferred, list(supposed.cancelled), supposed.may_copy) == (1, [0], [2])
    supposed = read([2, 3, 4], [0, None, -1]).suppose_copied([1])
    assert (supposed.copied, supposed.cancelled, supposed.may_copy) == ([0, 1], [0, 1], [])
