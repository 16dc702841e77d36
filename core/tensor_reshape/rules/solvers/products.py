"""Products of variables in facts, and conditions on them that are not written yet."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple, TypeVar

from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import ANY, Interval
from tensor_reshape.rules.solvers.equations import Monomial

EQUAL, DIVIDES, RANGE = ConditionKind

AnyFact = TypeVar("AnyFact")


class Ratio(NamedTuple):
    """`number * keys / (divisor * divisors)`, a product of variables, which are named by their keys."""

    number: int
    keys: tuple[int, ...]
    divisor: int = 1
    divisors: tuple[int, ...] = ()

    @classmethod
    def of(cls, monomial: Monomial) -> "Ratio":
        """Returns a dim. A number 0 is a variable in a monomial."""
        return cls(monomial.coefficient, monomial.variables, monomial.divisor, monomial.divisors)

    @classmethod
    def multiply(cls, ratios: Iterable["Ratio"]) -> "Ratio":
        """Returns the product of all."""
        numbers, keys, divisors, below = [1], list[int](), list[int](), [1]
        for ratio in ratios:
            numbers.append(ratio.number)
            below.append(ratio.divisor)
            keys += ratio.keys
            divisors += ratio.divisors
        return cls(prod(numbers), tuple(keys), prod(below), tuple(divisors))

    def times(self, other: "Ratio") -> "Ratio":
        """Returns the product."""
        return Ratio.multiply((self, other))

    def invert(self) -> "Ratio":
        """Returns the reciprocal."""
        return Ratio(self.divisor, self.divisors, self.number, self.keys)


class Sides(NamedTuple):
    """Two products in lowest terms, and the variables that left both and may be 0."""

    above: int
    left: tuple[int, ...]
    below: int
    right: tuple[int, ...]
    shared: tuple[int, ...] = ()


class Found(NamedTuple):
    """A condition in variables.

    Attributes:
        kind: its kind.
        sides: its products.
        bounds: the range of the left product, for a range.
    """

    kind: ConditionKind
    sides: Sides
    bounds: Interval = ANY

    @property
    def interval(self) -> Interval:
        """The values of a solved variable."""
        return self.bounds if self.kind is RANGE else Interval(self.sides.below, self.sides.below)


def is_solved(found: Found) -> bool:
    """Whether it is the value or the range of one variable."""
    sides = found.sides
    is_single = len(sides.left) == 1 and sides.above == 1 and not sides.right and not sides.shared
    return is_single and found.kind is not DIVIDES


def drop_implied(listed: Sequence[tuple[AnyFact, Found]]) -> Iterable[tuple[AnyFact, Found]]:
    """Yields conditions without those that follow from another one."""
    best, positive = dict[int, Interval](), set[int]()
    for _, found in listed:
        sides = found.sides
        if is_solved(found):
            own, old = found.interval, best.get(sides.left[0], ANY)
            best[sides.left[0]] = own if own.meet(old) == own else old
        elif not sides.shared:
            positive.update(_list_positive(found))
    seen = set[Found]()
    for fact, found in listed:
        follows = found in seen
        if is_solved(found) and found.kind is RANGE:
            key, own = found.sides.left[0], found.interval
            follows = follows or (own == (1, None) and key in positive) or own.meet(best[key]) != own
        if not follows:
            seen.add(found)
            yield fact, found


def _list_positive(found: Found) -> Sequence[int]:
    """Returns variables that a condition with a number above 0 makes at least 1."""
    sides = found.sides
    if found.kind is EQUAL:
        return sides.left if sides.below and not sides.right else ()
    return sides.right if found.kind is DIVIDES and not sides.left else ()
