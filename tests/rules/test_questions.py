"""Which questions are known, and how they compare."""

from collections.abc import Sequence

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_expression
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import Equality, Kind, Question, is_known

# data, target, whether both are numbers throughout
KNOWN: dict[str, tuple[Sequence[AnyDim] | None, Sequence[AnyDim] | None, bool]] = {
    "numbers": ([2, 3], [3, -1], True),
    "scalars": ((), (), True),
    "numbers that are refused": ([-5], [2**70], True),
    "a dim that is unknown": ([2, None], [-1], False),
    "an item that is an interval": ([2], [Dim(Interval(2, 2))], False),
    "an unknown rank": (None, [2], False),
    "an unknown target": ([2], None, False),
    "a truth value": ([True], [1], False),
}


@pytest.mark.parametrize(("data", "target", "known"), KNOWN.values(), ids=KNOWN.keys())
def test_a_question_is_known_where_all_of_it_are_numbers(
    data: Sequence[AnyDim] | None, target: Sequence[AnyDim] | None, known: bool
):
    assert is_known(Question(RESHAPE, data, target, special_zero=True)) is known


def test_equal_questions_are_one_key():
    one, other = (Question(RESHAPE, (2, 3), (6,), special_zero=True) for _ in range(2))
    assert len({one, other, one._replace(operation=STATIC_RESHAPE)}) == 2


@pytest.mark.parametrize(("unless_empty", "text"), [(False, "2*N = M"), (True, "2*N = M unless the tensor is empty")])
def test_an_equality_is_written_as_a_sentence(unless_empty: bool, text: str):
    left, right = make_expression(2, [Symbol("N")]), make_expression(1, [Symbol("M")])
    assert str(Equality(left, right, unless_empty)) == text


def test_each_kind_has_a_text_of_its_own():
    assert len({kind.value for kind in Kind}) == len(Kind) == 5
