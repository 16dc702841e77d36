"""Computes bounds of a quotient whose dividend is a product of variables and whose divisor is a constant.

    98 * x = n * m        98 = 2 * 49 = 1 * 98 = 7 * 14 ...        x = (n / 2) * (m / 49), or (n / 1) * (m / 98), or ...

If a constant divides a product of variables, the constant can be split into one divisor for each variable. For a given
split, each variable is divided by its own divisor, so the bounds of the whole quotient are exact. The smallest and the
largest bounds over all splits are therefore exact as well. For example, the quotient x is n * m / 98, and n and m are
at most 20. The simple bound 20 * 20 / 98 would allow x = 4. The split 7 * 14 allows at most x = 2 * 1, because 20 / 7
and 20 / 14 are rounded down, and no other split allows more.

Invariants: the splits of a constant are not listed one by one. Several splits may have the same product of divisors for
the first variables. For these splits, only the smallest and the largest product of quotients are kept. The number of
steps is computed before the splits are examined. If this number is too high, the query is left to the general search,
and has cost almost no steps.
"""

from collections.abc import Sequence
from typing import TypeAlias

from tensor_reshape.rules.limits import StepBudget
from tensor_reshape.rules.products import list_divisors
from tensor_reshape.rules.solvers.equations import Range

# A constant with more than _MAX_BITS bits is left to the general search. For a number with thousands of digits, the
# search for small prime factors can take tens of milliseconds, and models have no such constants.
_MAX_BITS = 64
_MAX_DIVISORS = 64
_FACTOR_STEPS = 40  # factorising a number of _MAX_BITS bits costs this many steps
_PAIRS_A_STEP = 3  # listing this many pairs of divisors costs one step
_TESTS_A_STEP = 16  # testing this many pairs of divisors costs one step
_MAX_STEPS = 1000  # the limit is low, because the solver needs the other steps of the budget

_Ends: TypeAlias = dict[int, tuple[int, int]]
"""A mapping from a product of divisors to the smallest and the largest product of quotients."""

_Pairs: TypeAlias = Sequence[tuple[int, int]]
"""Pairs of two numbers: the product of the divisors of earlier variables, and the divisor of a variable."""


def bound_quotient(ranges: Sequence[Range], constant: int, budget: StepBudget) -> Range | None:
    """Returns the exact range of a product divided by a constant; empty if the quotient is never an integer.

    See the lemma split-a-constant in `verification/lemmas.py`.

    Args:
        ranges: the ranges of the variables, each at least 1.
        constant: the number by which the product of the variables is divided.
        budget: the step budget.

    Returns:
        The range. The result is None if the constant has too many divisors, or if the computation would take too many
        steps.
    """
    if constant.bit_length() > _MAX_BITS or not budget.spend(_FACTOR_STEPS):
        return None
    divisors = list_divisors(constant, _MAX_DIVISORS)
    if divisors is None:
        return None
    pairs = _list_pairs(divisors, constant, len(ranges), budget)
    if pairs is None:
        return None
    # without any variables, the product of the divisors is 1, and the product of the quotients is 1
    found = {1: (1, 1)}
    for own, some in zip(ranges, pairs, strict=True):
        quotients = [(divisor, -(-own.min // divisor), own.max // divisor) for divisor in divisors]
        found = _use_up(found, {divisor: (low, high) for divisor, low, high in quotients if low <= high}, some)
    return Range(*found.get(constant, (1, 0)))


def _list_pairs(divisors: Sequence[int], constant: int, count: int, budget: StepBudget) -> Sequence[_Pairs] | None:
    """Returns a list of pairs for each variable of the product.

    A split gives each variable one divisor, and the product of these divisors is `constant`. Each pair of a variable
    contains the product of the divisors of all earlier variables, and the divisor of this variable.

    For the first variable, the product of the earlier divisors is 1. For the last variable, the divisor is `constant`
    divided by the product of the earlier divisors. Only the variables between the first and the last one need all
    pairs.
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
    """Adds one variable, and returns the smallest and the largest product of quotients for each product of divisors."""
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
