"""Where the next value of a variable may be that solves an equation of two products: a bound for the search to jump to.

    b * x * (what stands beside x) = a * (the other side)

In a search for the end of x most values fail for one reason: a is large, and must be divided by x and what stands beside
it, which is too small to take all of it. So each divisor d of a is a way to split it: x is a multiple of d, and what
stands beside x one of a / d. Both products of variables are taken for any number between their least and greatest: so
no solution is jumped over, but not each value that is jumped to is one.

Laws: private to `solvers.propagation`, which has searched one value in vain before anything is factorised here. Each
jump spends as many steps as there are divisors to look at.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.divisors import list_divisors
from tensor_reshape.rules.solvers.equations import Range

_MAX_DIVISORS = 64
_FACTOR_STEPS = 100  # what it takes to factorise a number, in steps
_TRIES = 4  # so many multiples of one divisor are tried until the other side has room for one


class Split(NamedTuple):
    """One divisor of the constant.

    Attributes:
        divisor: of which the variable is a multiple.
        least: what is beside the variable, over the constant's other divisor: the least it can be.
        most: the same, at most.
    """

    divisor: int
    least: int
    most: int


class Quotient:
    """A variable as a quotient: `x = constant * other / beside`."""

    def __init__(self, constant: int, other: Range, beside: Range, budget: StepBudget) -> None:
        """Takes the ranges of both products of variables; neither is open."""
        self._constant = constant
        self._other = other
        self._beside = beside
        self._budget = budget

    def find_next(self, low: int, high: int) -> int:
        """Returns the least value from `low` that may be a solution; `high + 1` where there is none.

        Lemma: split-a-constant.
        """
        splits = self._splits
        if splits is None or not self._budget.spend(len(splits)):
            return low
        return min((found for split in splits for found in self._climb(split, low, high)), default=high + 1)

    def find_previous(self, low: int, high: int) -> int:
        """Returns the greatest value up to `high` that may be a solution; `low` where there is none above.

        Lemma: split-a-constant.
        """
        splits = self._splits
        if splits is None or not self._budget.spend(len(splits)):
            return high
        return max((found for split in splits for found in self._descend(split, low, high)), default=low)

    def _climb(self, split: Split, low: int, high: int) -> Sequence[int]:
        divisor, least, most = split
        multiple = max(-(-low // divisor), -(-self._other.min // most))
        for _ in range(_TRIES):
            if self._has_room(multiple, least, most):
                break
            multiple += 1
        return (divisor * multiple,) if multiple <= min(high // divisor, self._other.max // least) else ()

    def _descend(self, split: Split, low: int, high: int) -> Sequence[int]:
        divisor, least, most = split
        multiple = min(high // divisor, self._other.max // least)
        for _ in range(_TRIES):
            if multiple < 1 or self._has_room(multiple, least, most):
                break
            multiple -= 1
        return (divisor * multiple,) if multiple >= max(-(-low // divisor), -(-self._other.min // most), 1) else ()

    def _has_room(self, multiple: int, least: int, most: int) -> bool:
        """Whether the other side can be a multiple of this number, by a number between these ends."""
        number = max(least, -(-self._other.min // multiple))
        return number <= most and multiple * number <= self._other.max

    @cached_property
    def _splits(self) -> Sequence[Split] | None:
        """The ways to split the constant; None where they are too many, or not known for sure."""
        self._budget.spend(_FACTOR_STEPS)
        divisors = list_divisors(self._constant, _MAX_DIVISORS)
        if divisors is None:
            return None
        ends = [(divisor, self._constant // divisor) for divisor in divisors]
        splits = [
            Split(divisor, max(1, -(-self._beside.min // rest)), self._beside.max // rest) for divisor, rest in ends
        ]
        return [split for split in splits if split.least <= split.most]
