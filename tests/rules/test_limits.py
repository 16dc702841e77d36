"""Step budgets: spent, remaining and reserved steps."""

from contextlib import suppress

from tensor_reshape.rules.limits import MAX_STEPS, StepBudget


def test_step_budget_spend_succeeds_only_with_enough_steps():
    assert StepBudget().left == MAX_STEPS
    for steps, is_paid, left in [(3, True, 2), (5, True, 0), (6, False, -1)]:
        budget = StepBudget(5)
        assert (budget.spend(steps), budget.left) == (is_paid, left)
    overdrawn = StepBudget(1)
    assert [overdrawn.spend(2), overdrawn.spend(1)] == [False, False]


def test_step_budget_gets_held_steps_back_after_the_block():
    budget = StepBudget(90)
    with budget.hold(2):
        assert budget.left == 30
        budget.spend(40)
    assert budget.left == 50
    with suppress(ZeroDivisionError), budget.hold(1):
        _ = 1 // 0
    assert budget.left == 50


def test_overdrawn_step_budget_holds_no_steps():
    budget = StepBudget(1)
    budget.spend(3)
    with budget.hold(1):
        assert budget.left == -2
    assert budget.left == -2
