"""How the constant of one side is split among the variables of the other, and what is left of their product.

    98 * x = n * m        98 = 2 * 49 = 1 * 98 = 7 * 14 ...        x = (n / 2) * (m / 49), or (n / 1) * (m / 98), or ...

A constant that divides a product of variables is a product of divisors, one of each. So the quotient is a product of
quotients that are free of each other, in one of the ways to split the constant: the ends over all ways are exact. The
quotient of the ends, 98 * x <= 20 * 20, has x = 4; but 20 / 7 * 20 / 14 is 2 * 1, and no other way gives more.

Laws: private to `solvers.propagation`. The ways are not listed: of those that used up the same divisor so far, only
the ends are kept. Each variable takes a step for each _PAIRS_A_STEP pairs of divisors.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.divisors import list_divisors
from tensor_reshape.rules.solvers.equations import Range

_MAX_DIVISORS = 64
_FACTOR_STEPS = 100  # what it takes to factorise a number
_PAIRS_A_STEP = 4

_Ends: TypeAlias = dict[int, tuple[int, int]]
"""The least and the greatest product, by a divisor."""


def bound_quotient(ranges: Sequence[Range], constant: int, budget: StepBudget) -> Range | None:
    """Returns what the product of variables over a constant lies between, both ends reached; empty: it is no number.

    Lemma: split-a-constant.

    Args:
        ranges: of the variables, each at least 1.
        constant: what divides their product.
        budget: of the question.

    Returns:
        None where the constant has too many divisors, or it takes too many steps.
    """
    divisors = list_divisors(constant, _MAX_DIVISORS) if budget.spend(_FACTOR_STEPS) else None
    if divisors is None:
        return None
    pairs = [(taken, divisor) for taken in divisors for divisor in divisors if not constant % (taken * divisor)]
    found = {1: (1, 1)}  # by what of the constant is used up
    for own in ranges:
        if not budget.spend(len(pairs) // _PAIRS_A_STEP):
            return None
        quotients = [(divisor, -(-own.min // divisor), own.max // divisor) for divisor in divisors]
        found = _use_up(found, {divisor: (low, high) for divisor, low, high in quotients if low <= high}, pairs)
    return Range(*found.get(constant, (1, 0)))


def _use_up(found: _Ends, quotients: _Ends, pairs: Iterable[tuple[int, int]]) -> _Ends:
    """Returns the ends with one more variable, by what of the constant is used up then."""
    grown: _Ends = {}
    for taken, divisor in pairs:
        if taken in found and divisor in quotients:
            (low, high), (least, most) = found[taken], quotients[divisor]
            used = taken * divisor
            low, high = low * least, high * most
            if used in grown:
                low, high = min(low, grown[used][0]), max(high, grown[used][1])
            grown[used] = (low, high)
    return grown
