"""A constant that divides a product of variables: the quotient's ends over all ways to split it."""

from itertools import product
from math import prod
from random import Random

import pytest

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.splits import bound_quotient


@pytest.mark.parametrize("seed", range(40))
def test_both_ends_are_those_of_all_quotients(seed: int):
    random = Random(seed)
    ranges = [Range(low, low + random.randint(0, 9)) for low in random.choices(range(1, 20), k=random.randint(1, 4))]
    constant = random.choice((1, 2, 6, 8, 12, 49, 98, 360))
    every = [prod(values) for values in product(*[range(own.min, own.max + 1) for own in ranges])]
    quotients = [value // constant for value in every if value % constant == 0]

    found = bound_quotient(ranges, constant, StepBudget())

    assert found is not None
    assert found.is_empty if not quotients else found == (min(quotients), max(quotients))


def test_the_windows_of_a_picture_are_counted():
    # 98 windows would take 98 * 4 = 392 elements of 400; 20 / 7 * 20 / 14 is all that there is.
    assert bound_quotient([Range(1, 20), Range(1, 20)], 98, StepBudget()) == (1, 2)


@pytest.mark.parametrize("constant", [2**64, 2 * 3 * 5 * 7 * 11 * 13 * 17, 1_000_003 * 1_000_033])
def test_nothing_is_said_where_a_constant_has_too_many_divisors_or_unknown_ones(constant: int):
    assert bound_quotient([Range(1, 2**40), Range(1, 2**40)], constant, StepBudget()) is None


@pytest.mark.parametrize("steps", [0, 100, 110])
def test_nothing_is_said_where_steps_run_out(steps: int):
    assert bound_quotient([Range(1, 64)] * 4, 2**20, StepBudget(steps)) is None


def test_a_constant_of_thousands_of_digits_is_not_factorised():
    budget = StepBudget()
    assert bound_quotient([Range(1, 2**62)] * 62, 2**3780, budget) is None
    assert budget.left == StepBudget().left


def test_what_would_take_too_many_steps_leaves_them_to_the_search():
    # 63 divisors, and 62 variables between the first and the last.
    budget = StepBudget()
    assert bound_quotient([Range(1, 2**62)] * 64, 2**62, budget) is None
    assert budget.left > StepBudget().left * 9 // 10
