"""The kinds of the items of a target. The tests of results cover their use by the solvers."""

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.errors import Reason
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Kind, Question
from tensor_reshape.rules.targets import Target, balance, read_target

LITERAL, COPIED, INFERRED, LENGTH, UNKNOWN = Kind


def read(items: list[AnyDim], *, special_zero: bool = True) -> Target[AnyDim]:
    """Reads a target of data [7]."""
    question: AnyQuestion = Question(RESHAPE, [7], items, special_zero)
    return read_target(question, items)


# item of a target [item]; its kind with and without special_zero
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


def test_each_target_item_is_classified_by_special_zero():
    for item, *kinds in KINDS:
        assert [read([item], special_zero=flag).kinds[0] for flag in (True, False)] == kinds, item


# items; the items that were read, reason, values of the error
REJECTED: list[tuple[list[AnyDim], list[Kind], Reason, dict[str, str]]] = [
    ([2, -2, 3], [LITERAL], Reason.INVALID_TARGET_VALUE, {"value": "-2"}),
    ([None, 2**63], [UNKNOWN], Reason.INVALID_TARGET_VALUE, {"index": "1"}),
    ([0, 0], [COPIED], Reason.COPY_INDEX_OUT_OF_RANGE, {"rank": "1"}),
    ([-1, 1, -1, -5], [INFERRED, LITERAL], Reason.MULTIPLE_MINUS_ONE, {"first": "0"}),
    ([10**5000], [], Reason.INVALID_TARGET_VALUE, {"index": "0"}),
]


def test_target_error_keeps_the_kinds_of_earlier_items():
    for items, kinds, reason, values in REJECTED:
        target = read(items)
        assert target.rejection is not None
        assert (target.kinds, target.rejection.reason, target.is_plain) == (kinds, reason, False)
        assert target.rejection.metadata.items() >= values.items()


# items; the dims of data [7] and of the output whose products are equal
SIDES: list[tuple[list[AnyDim], list[AnyDim], list[AnyDim]]] = [
    ([0, 1], [7], [7, 1]),
    ([7, -1], [7], [7]),  # a -1 is on neither side
    ([0, -1], [], []),  # with a -1, a copy is cancelled
]


def test_volume_equation_omits_cancelled_dims():
    for items, left, right in SIDES:
        assert [list(side) for side in balance(read(items), [7])] == [left, right], items
