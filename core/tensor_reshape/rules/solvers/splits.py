"""How the constant of one side is split among the variables of the other, and what is left of their product.

    98 * x = n * m        98 = 2 * 49 = 1 * 98 = 7 * 14 ...        x = (n / 2) * (m / 49), or (n / 1) * (m / 98), or ...

A constant that divides a product of variables is a product of divisors, one of each. So the quotient is a product of
quotients that are free of each other, in one of the ways to split the constant: the ends over all ways are exact. The
quotient of the ends, 98 * x <= 20 * 20, has x = 4; but 20 / 7 * 20 / 14 is 2 * 1, and no other way gives more.

Laws: private to `solvers.propagation`. The ways are not listed: of those that used up the same divisor so far, only
the ends are kept. The steps are counted before they are taken, so what would take too many takes next to none: they are
left to the search.
"""

from collections.abc import Sequence
from typing import TypeAlias

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.divisors import list_divisors
from tensor_reshape.rules.solvers.equations import Range

_MAX_BITS = 64  # a constant of thousands of digits takes milliseconds to factorise, and no model has one
_MAX_DIVISORS = 64
_FACTOR_STEPS = 40  # what it takes to factorise a number of so many bits
_PAIRS_A_STEP = 3  # of divisors, in the time that another step of the budget may take
_TESTS_A_STEP = 16  # whether two divisors are a pair
_MAX_STEPS = 1000  # the search needs the rest

_Ends: TypeAlias = dict[int, tuple[int, int]]
"""The least and the greatest product, by a divisor."""

_Pairs: TypeAlias = Sequence[tuple[int, int]]
"""A divisor that is used up, and one that is left of the constant then."""


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
    if constant.bit_length() > _MAX_BITS or not budget.spend(_FACTOR_STEPS):
        return None
    divisors = list_divisors(constant, _MAX_DIVISORS)
    if divisors is None:
        return None
    pairs = _list_pairs(divisors, constant, len(ranges), budget)
    if pairs is None:
        return None
    found = {1: (1, 1)}  # by what of the constant is used up
    for own, some in zip(ranges, pairs, strict=True):
        quotients = [(divisor, -(-own.min // divisor), own.max // divisor) for divisor in divisors]
        found = _use_up(found, {divisor: (low, high) for divisor, low, high in quotients if low <= high}, some)
    return Range(*found.get(constant, (1, 0)))


def _list_pairs(divisors: Sequence[int], constant: int, count: int, budget: StepBudget) -> Sequence[_Pairs] | None:
    """Returns, for each of so many variables, what may be used up before it with what it may use up itself.

    The first one finds nothing used up, and the last one has to use up the rest: only those between look at all pairs.
    """
    first = [(1, divisor) for divisor in divisors]
    last = [(constant // divisor, divisor) for divisor in divisors]
    between: _Pairs = []
    if count > 2:  # noqa: PLR2004 - there is one between the first and the last
        if not budget.spend(len(divisors) ** 2 // _TESTS_A_STEP):
            return None
        between = [(taken, divisor) for taken in divisors for divisor in divisors if not constant % (taken * divisor)]
    steps = (2 * len(divisors) + len(between) * max(count - 2, 0)) // _PAIRS_A_STEP
    if steps > _MAX_STEPS or not budget.spend(steps):
        return None
    return [first, *[between] * (count - 2), last][-count:]


def _use_up(found: _Ends, quotients: _Ends, pairs: _Pairs) -> _Ends:
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
