"""A constant that divides a product of variables: the quotient's ends over all ways to split it."""

from itertools import product
from math import prod
from random import Random

from tensor_reshape.rules.limits import MAX_STEPS, StepBudget
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.splits import bound_quotient


def test_quotient_bounds_equal_the_enumerated_quotients():
    random = Random(1)
    for _ in range(40):
        lows = random.choices(range(1, 20), k=random.randint(1, 4))
        ranges = [Range(low, low + random.randint(0, 9)) for low in lows]
        constant = random.choice((1, 2, 6, 8, 12, 49, 98, 360))
        every = [prod(values) for values in product(*[range(own.min, own.max + 1) for own in ranges])]
        quotients = [value // constant for value in every if value % constant == 0]
        found = bound_quotient(ranges, constant, StepBudget())
        assert found is not None
        assert found.is_empty if not quotients else found == (min(quotients), max(quotients)), (ranges, constant)
    # 98 windows of 4 elements would take 392 of the 400, but the only split is 20 / 7 * 20 / 14.
    assert bound_quotient([Range(1, 20), Range(1, 20)], 98, StepBudget()) == (1, 2)


def test_bound_quotient_skips_constants_with_too_many_divisors():
    for constant in (2**64, 2 * 3 * 5 * 7 * 11 * 13 * 17, 1_000_003 * 1_000_033):
        assert bound_quotient([Range(1, 2**40), Range(1, 2**40)], constant, StepBudget()) is None, constant


def test_bound_quotient_returns_none_if_steps_run_out():
    for steps in (0, 100, 110):
        assert bound_quotient([Range(1, 64)] * 4, 2**20, StepBudget(steps)) is None, steps


def test_bound_quotient_skips_expensive_constants_without_using_steps():
    budget = StepBudget()
    # thousands of digits
    assert bound_quotient([Range(1, 2**62)] * 62, 2**3780, budget) is None
    assert budget.left == StepBudget().left
    # 63 divisors, and 62 variables between the first and the last
    assert bound_quotient([Range(1, 2**62)] * 64, 2**62, budget) is None
    assert budget.left > StepBudget().left * 9 // 10


# the number of variables, the constant; the steps for bounding their quotient
STEPS = {
    (1, 1): 40,
    (1, 6): 42,
    (2, 6): 42,
    (3, 6): 46,
    (2, 360): 56,
    (3, 360): 152,
    (4, 360): 212,
    (5, 2**20): 312,
    (3, 2**62): 1002,
    (3, 2**63): 1032,
}


def test_bounding_a_quotient_takes_as_many_steps_as_recorded():
    found = {}
    for count, constant in STEPS:
        budget = StepBudget()
        assert bound_quotient([Range(1, 64)] * count, constant, budget) is not None
        found[count, constant] = MAX_STEPS - budget.left
        assert bound_quotient([Range(1, 64)] * count, constant, StepBudget(found[count, constant])) is not None
        assert bound_quotient([Range(1, 64)] * count, constant, StepBudget(found[count, constant] - 1)) is None
    assert found == STEPS


def test_bound_quotient_limits_divisors_bits_and_steps_exactly():
    # constant; the least number of variables for which no quotient is bounded. 331776 has 65 divisors.
    least = {360: 19, 720: 13, 5040: 6, 2**20: 15, 331776: 2, 2**63: 4, 2**64: 2}
    found = {
        constant: next(
            count for count in range(2, 64) if bound_quotient([Range(1, 2)] * count, constant, StepBudget()) is None
        )
        for constant in least
    }
    assert found == least
