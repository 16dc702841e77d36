"""Bounds of the quotient of a product of variables and a constant, over all ways to split the constant among them.

    98 * x = n * m        98 = 2 * 49 = 1 * 98 = 7 * 14 ...        x = (n / 2) * (m / 49), or (n / 1) * (m / 98), or ...

A constant that divides a product of variables is a product of divisors, one of each variable. For one way to split the
constant, the quotient is a product of independent quotients. The ends over all ways are therefore exact. For example,
dividing the ends of 98 * x <= 20 * 20 would allow x = 4. But 20 / 7 * 20 / 14 is 2 * 1, and no other way gives more.

Invariants: only `solvers.propagation` uses this module. The ways are not listed: of those that have used the same
divisor so far, only the ends are kept. Steps are counted before they are taken, so a query that would take too many
costs almost nothing and is left to the search.
"""

from collections.abc import Sequence
from typing import TypeAlias

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.divisors import list_divisors
from tensor_reshape.rules.solvers.equations import Range

_MAX_BITS = 64  # factorising a constant of thousands of digits takes milliseconds, and no model has one
_MAX_DIVISORS = 64
_FACTOR_STEPS = 40  # the steps to factorise a number of that size
_PAIRS_A_STEP = 3  # pairs of divisors that cost as much as one step
_TESTS_A_STEP = 16  # tests of pairs that cost as much as one step
_MAX_STEPS = 1000  # the search needs the rest

_Ends: TypeAlias = dict[int, tuple[int, int]]
"""The smallest and largest product, by divisor."""

_Pairs: TypeAlias = Sequence[tuple[int, int]]
"""A used divisor, and one that is left of the constant."""


def bound_quotient(ranges: Sequence[Range], constant: int, budget: StepBudget) -> Range | None:
    """Returns the exact range of a product of variables divided by a constant; empty if it is never an integer.

    Lemma: split-a-constant.

    Args:
        ranges: the ranges of the variables, each at least 1.
        constant: the divisor of their product.
        budget: the step budget.

    Returns:
        None if the constant has too many divisors, or if it would take too many steps.
    """
    if constant.bit_length() > _MAX_BITS or not budget.spend(_FACTOR_STEPS):
        return None
    divisors = list_divisors(constant, _MAX_DIVISORS)
    if divisors is None:
        return None
    pairs = _list_pairs(divisors, constant, len(ranges), budget)
    if pairs is None:
        return None
    found = {1: (1, 1)}  # by the used part of the constant
    for own, some in zip(ranges, pairs, strict=True):
        quotients = [(divisor, -(-own.min // divisor), own.max // divisor) for divisor in divisors]
        found = _use_up(found, {divisor: (low, high) for divisor, low, high in quotients if low <= high}, some)
    return Range(*found.get(constant, (1, 0)))


def _list_pairs(divisors: Sequence[int], constant: int, count: int, budget: StepBudget) -> Sequence[_Pairs] | None:
    """Returns for each variable the parts of the constant that may be used before it, with those that it may use.

    Nothing is used before the first variable, and the last one must use the rest. Only variables between them examine
    all pairs.
    """
    first = [(1, divisor) for divisor in divisors]
    last = [(constant // divisor, divisor) for divisor in divisors]
    between: _Pairs = []
    if count > 2:  # noqa: PLR2004 - there are variables between the first and the last
        if not budget.spend(len(divisors) ** 2 // _TESTS_A_STEP):
            return None
        between = [(taken, divisor) for taken in divisors for divisor in divisors if not constant % (taken * divisor)]
    steps = (2 * len(divisors) + len(between) * max(count - 2, 0)) // _PAIRS_A_STEP
    if steps > _MAX_STEPS or not budget.spend(steps):
        return None
    return [first, *[between] * (count - 2), last][-count:]


def _use_up(found: _Ends, quotients: _Ends, pairs: _Pairs) -> _Ends:
    """Returns the ends with one more variable, by the used part of the constant."""
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
