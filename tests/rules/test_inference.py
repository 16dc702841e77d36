"""Which questions are answered at once, which ones go on, and what is told with an answer."""

from unittest.mock import patch

import pytest

from call_counts import count_calls
from tensor_reshape.rules import inference
from tensor_reshape.rules.budgets import MAX_STEPS, StepBudget
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason
from tensor_reshape.rules.inference import Unsolved, answer_question, begin_answer, finish_answer
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Kind, ShapeAnswer, ShapeRequest
from tensor_reshape.rules.solvers.cases import solve
from tensor_reshape.rules.targets import read_target
from tensor_reshape.rules.views import ViewPossibility
from written_questions import write_question

# data, target, expected
LIGHT: dict[str, tuple[str, str, str | None]] = {
    "numbers": ("2 3", "-1", None),
    "numbers and what is expected of them": ("2 3", "-1", "6"),
    "a name that is copied": ("N 12 64", "0 -1", None),
    "names that are multiplied": ("N S 768", "-1 768", None),
    "an interval that is divided": ("1..32 9 64", "0 -1 8", None),
}
HEAVY: dict[str, tuple[str | None, str | None, str | None]] = {
    "an unknown item": ("2 3", "?", None),
    "a length": ("N 4", "M 4", None),
    "an unknown rank": (None, "-1", None),
    "an unknown target": ("2 3", None, None),
    "something expected": ("N 4", "-1", "8"),
    "two unknown dims that are divided": ("N M", "8 -1", None),
}


@pytest.mark.parametrize(("data", "target", "expected"), LIGHT.values(), ids=LIGHT.keys())
def test_a_question_that_takes_no_search_is_answered_at_once(data: str, target: str, expected: str | None):
    answer = begin_answer(ShapeRequest(write_question(RESHAPE, data, target, True, expected)))
    assert isinstance(answer, ShapeAnswer)


@pytest.mark.parametrize(("data", "target", "expected"), HEAVY.values(), ids=HEAVY.keys())
def test_a_question_that_takes_a_search_goes_on_from_where_it_was(
    data: str | None, target: str | None, expected: str | None
):
    request = ShapeRequest(write_question(RESHAPE, data, target, True, expected))
    begun = begin_answer(request)
    assert isinstance(begun, Unsolved)
    assert finish_answer(begun) == answer_question(request)


@pytest.mark.parametrize(("data", "target"), [("6", "4 -1"), ("6", "-2"), ("N 4", "-1 ?")], ids=str)
def test_a_target_is_read_once(data: str, target: str):
    request = ShapeRequest(write_question(RESHAPE, data, target, True))
    with patch.object(inference, "read_target", wraps=read_target) as read:
        count_calls(lambda: answer_question(request))
    assert read.call_count == 1


@pytest.mark.parametrize("special_zero", [None, True])
def test_a_question_against_the_first_rules_is_refused_at_once(special_zero: bool | None):
    question = write_question(RESHAPE, "? " * 65 if special_zero else "?", "?", special_zero)
    with pytest.raises((InvalidRequestError, LimitError)):
        begin_answer(ShapeRequest(question))


# data, target, expected of questions that are refused; how many searches that takes
REFUSED: dict[str, tuple[str, str, str | None, int]] = {
    "volumes that are never equal": ("3..5 2", "1..2 2", None, 1),
    "a remainder": ("7 1..2", "-1 5 1..9", None, 1),
    "a -1 that might be too large": (f"{2**62}..{2**62 + 9} 4 N:1..2", "-1 1..1", None, 2),
    "expected dims that cannot be together": ("1..3 5", "-1 1..5", "4 3", 2),
    "a remainder under an expected dim": ("7 1..2", "-1 5 1..9", "7 ? ?", 2),
}


@pytest.mark.parametrize(("data", "target", "expected", "searches"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refusal_takes_no_more_searches_than_it_must(data: str, target: str, expected: str | None, searches: int):
    request = ShapeRequest(write_question(RESHAPE, data, target, True, expected))
    with patch.object(inference, "solve", wraps=solve) as search, pytest.raises(InvalidRequestError):
        answer_question(request)
    assert search.call_count == searches


def test_an_answer_in_closed_form_takes_no_step():
    budget = StepBudget()
    answer_question(ShapeRequest(write_question(RESHAPE, "N S 768", "-1 768", True)), budget=budget)
    assert budget.left == MAX_STEPS


def test_a_question_without_wishes_is_answered_with_dims_alone():
    assert answer_question(ShapeRequest(write_question(RESHAPE, "2 3", "-1", True))) == ShapeAnswer((6,))


def test_what_is_asked_for_is_told_with_the_answer():
    request = ShapeRequest(write_question(RESHAPE, "2 3", "-1", True), explain=True, strides=(3, 1))
    answer = answer_question(request)
    assert answer.view is not None
    assert ([origin.kind for origin in answer.origins], answer.view.possibility) == (
        [Kind.INFERRED],
        ViewPossibility.POSSIBLE,
    )


@pytest.mark.parametrize("explain", [True, False])
def test_a_refusal_is_explained_only_where_that_is_asked(explain: bool):
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(write_question(RESHAPE, "7", "2 -1", True), explain))
    assert ("accepted" in caught.value.metadata) is explain


def test_a_symbol_of_two_sizes_is_blamed_before_an_item_that_comes_later():
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(write_question(RESHAPE, "N:1..2", "N:3..4 -5", True)))
    assert (caught.value.reason, caught.value.field) == (Reason.SYMBOL_CONFLICT, "shape[0]")


def test_an_item_is_blamed_before_a_symbol_of_two_sizes_that_comes_later():
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(write_question(RESHAPE, "N:1..2", "-5 N:3..4", True)))
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_TARGET_VALUE, "shape[0]")
