"""A step budget says whether there were as many steps left, and how many are."""

from contextlib import suppress

import pytest

from tensor_reshape.rules.budgets import MAX_STEPS, StepBudget


def test_a_budget_is_that_of_one_question():
    assert StepBudget().left == MAX_STEPS


@pytest.mark.parametrize(("steps", "is_paid", "left"), [(3, True, 2), (5, True, 0), (6, False, -1)])
def test_steps_are_paid_where_there_are_as_many(steps: int, is_paid: bool, left: int):
    budget = StepBudget(5)
    assert (budget.spend(steps), budget.left) == (is_paid, left)


def test_a_budget_that_is_overdrawn_pays_nothing_more():
    budget = StepBudget(1)
    assert [budget.spend(2), budget.spend(1)] == [False, False]


def test_what_is_held_back_for_others_is_there_again_afterwards():
    budget = StepBudget(90)
    with budget.hold(2):
        assert budget.left == 30
        budget.spend(40)
    assert budget.left == 50


def test_nothing_is_held_back_of_a_budget_that_is_overdrawn():
    budget = StepBudget(1)
    budget.spend(3)
    with budget.hold(1):
        assert budget.left == -2
    assert budget.left == -2


def test_what_is_held_back_is_there_again_after_a_bug():
    budget = StepBudget(90)
    with suppress(ZeroDivisionError), budget.hold(2):
        _ = 1 // 0
    assert budget.left == 90
