"""Known queries."""

from collections.abc import Sequence

from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question, is_known

Sides = list[tuple[Sequence[AnyDim] | None, Sequence[AnyDim] | None]]


def test_query_is_fully_known_if_all_dims_are_integers():
    known: Sides = [([2, 3], [3, -1]), ((), ()), ([-5], [2**70])]
    others: Sides = [([2, None], [-1]), ([2], [Dim(Interval(2, 2))]), (None, [2]), ([2], None), ([True], [1])]
    assert [is_known(Question(RESHAPE, *row, special_zero=True)) for row in known] == [True] * len(known)
    assert [is_known(Question(RESHAPE, *row, special_zero=True)) for row in others] == [False] * len(others)
