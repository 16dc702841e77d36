"""Products of variables in facts, and conditions in which variables do not have their names yet."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple, TypeVar

from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import ANY, Interval
from tensor_reshape.rules.solvers.equations import Monomial, Range

EQUAL, DIVIDES, RANGE = ConditionKind

AnyFact = TypeVar("AnyFact")


class Ratio(NamedTuple):
    """A fraction of products: `number * keys / (divisor * divisors)`. Variables are identified by their keys."""

    number: int
    keys: tuple[int, ...]
    divisor: int = 1
    divisors: tuple[int, ...] = ()

    @classmethod
    def of(cls, monomial: Monomial) -> "Ratio":
        """Returns the ratio of a monomial, in which a dim of 0 is a variable."""
        return cls(monomial.coefficient, monomial.variables, monomial.divisor, monomial.divisors)

    @classmethod
    def multiply(cls, ratios: Iterable["Ratio"]) -> "Ratio":
        """Returns the product of all ratios."""
        numbers, keys, divisors, below = [1], list[int](), list[int](), [1]
        for ratio in ratios:
            numbers.append(ratio.number)
            below.append(ratio.divisor)
            keys += ratio.keys
            divisors += ratio.divisors
        return cls(prod(numbers), tuple(keys), prod(below), tuple(divisors))

    def times(self, other: "Ratio") -> "Ratio":
        """Returns the product of this ratio and another ratio."""
        return Ratio.multiply((self, other))

    def invert(self) -> "Ratio":
        """Returns the reciprocal of this ratio."""
        return Ratio(self.divisor, self.divisors, self.number, self.keys)


ONE = Ratio(1, ())


class Sides(NamedTuple):
    """Two products without common factors, and the removed common variables that may be 0."""

    above: int
    left: tuple[int, ...]
    below: int
    right: tuple[int, ...]
    shared: tuple[int, ...] = ()


class Found(NamedTuple):
    """A condition in which variables are identified by their keys and not by names.

    Attributes:
        kind: the kind of the condition.
        sides: the two products that the condition compares.
        bounds: the range of the left product, if the kind is RANGE.
    """

    kind: ConditionKind
    sides: Sides
    bounds: Interval = ANY

    @property
    def interval(self) -> Interval:
        """The range of the variable, if the condition is solved for one variable."""
        return self.bounds if self.kind is RANGE else Interval(self.sides.below, self.sides.below)


def is_solved(found: Found) -> bool:
    """Whether the condition gives the value or the range of one variable."""
    sides = found.sides
    is_single = len(sides.left) == 1 and sides.above == 1 and not sides.right and not sides.shared
    return is_single and found.kind is not DIVIDES


def remove_keys(keys: tuple[int, ...], common: Counter[int]) -> tuple[int, ...]:
    """Returns the variables of a product without the common variables."""
    left, kept = Counter(common), list[int]()
    for key in keys:
        if left[key]:
            left[key] -= 1
        else:
            kept.append(key)
    return tuple(kept)


class Implied(NamedTuple):
    """The variables whose values are limited by conditions.

    Attributes:
        known: the variables with one value.
        lows: the lower ends of ranges of variables.
        highs: the upper ends of ranges of variables.
        positive: the variables that must be at least 1, because a condition compares their product with a product above
            0.
        multiples: pairs of a number and the variables whose product is a multiple of this number, because a condition
            says that it is equal to another product with this factor.
        exceptions: for each relation of two products, the variables that may be 0 in each condition with this relation.
    """

    known: set[int]
    lows: dict[int, int]
    highs: dict[int, int]
    positive: set[int]
    multiples: list[tuple[int, Counter[int]]]
    exceptions: dict[Hashable, list[set[int]]]

    def make_positive(self, key: int) -> bool:
        """Whether a variable is at least 1 because of the conditions."""
        return key in self.lows or key in self.positive or key in self.known

    def make_divisible(self, found: Found) -> bool:
        """Whether a number divides a product because of an equality."""
        _, left, number, right, _ = found.sides
        return not right and any(step % number == 0 and own <= Counter(left) for step, own in self.multiples)

    def have_stronger(self, found: Found) -> bool:
        """Whether another condition has the same relation with fewer exceptions, or equates the two products."""
        own, equal = set(found.sides.shared), found._replace(kind=EQUAL)
        is_equal = found.kind is DIVIDES and any(other <= own for other in self.exceptions.get(_relate(equal), ()))
        return is_equal or any(other < own for other in self.exceptions[_relate(found)])


def _relate(found: Found) -> Hashable:
    """Returns the kind of a condition and its two products, which are equal for `A = B*C` and `C*B = A`."""
    above, left, below, right, _ = found.sides
    products = (above, tuple(sorted(left))), (below, tuple(sorted(right)))
    return found.kind, found.bounds, tuple(sorted(products)) if found.kind is EQUAL else products


def find_implied(listed: Iterable[Found], declared: Sequence[Range]) -> Implied:
    """Returns the variables whose values are limited by conditions.

    Args:
        listed: the conditions.
        declared: the declared range of each variable, by its key.
    """
    implied = Implied(set(), {}, {}, set(), [], {})
    for found in listed:
        implied.exceptions.setdefault(_relate(found), []).append(set(found.sides.shared))
        if not is_solved(found):
            implied.positive.update(_list_positive(found, declared))
            implied.multiples.extend(_list_multiples(found))
            continue
        key, (low, high) = found.sides.left[0], found.bounds
        if found.kind is EQUAL:
            implied.known.add(key)
        if low:
            implied.lows[key] = max(low, implied.lows.get(key, 0))
        if high is not None:
            implied.highs[key] = min(high, implied.highs.get(key, high))
    return implied


def drop_implied(listed: Iterable[tuple[AnyFact, Found]], implied: Implied) -> Iterator[tuple[AnyFact, Found]]:
    """Yields the conditions that do not follow from another condition."""
    known, lows, highs = implied.known, dict(implied.lows), dict(implied.highs)
    seen = set[tuple[Hashable, frozenset[int]]]()
    for fact, found in listed:
        if implied.have_stronger(found) or (found.kind is DIVIDES and implied.make_divisible(found)):
            continue
        kept = found
        if found.kind is RANGE and is_solved(found):
            # For each variable, only the highest lower bound and the lowest upper bound are listed, and each of them
            # only once.
            key, (low, high) = found.sides.left[0], found.bounds
            low = lows.pop(key) if low and lows.get(key) == low else 0
            high = highs.pop(key) if high is not None and highs.get(key) == high else None
            if key in known or (low == 1 and key in implied.positive):
                low = 0
            kept = found._replace(bounds=Interval(low, None if key in known else high))
            if kept.bounds == ANY:
                continue
        one = _relate(kept), frozenset(kept.sides.shared)
        if one not in seen:
            seen.add(one)
            yield fact, kept


def _list_positive(found: Found, declared: Sequence[Range]) -> Sequence[int]:
    """Returns the variables that are at least 1, because a condition compares their product with a product above 0.

    Lemma: factors-of-elements.
    """
    above, left, below, right, shared = found.sides
    if shared or found.kind is RANGE:
        return ()
    is_left_filled = above > 0 and all(declared[key].min for key in left)
    if found.kind is DIVIDES:
        return right if is_left_filled else ()
    is_right_filled = below > 0 and all(declared[key].min for key in right)
    return (*(left if is_right_filled else ()), *(right if is_left_filled else ()))


def _list_multiples(found: Found) -> Iterator[tuple[int, Counter[int]]]:
    """Yields each product of an equality that is a multiple of the number on the other side, with this number.

    Lemma: equal-to-a-multiple.
    """
    above, left, below, right, shared = found.sides
    if found.kind is EQUAL and not shared:
        if below == 1 < above:
            yield above, Counter(right)
        if above == 1 < below:
            yield below, Counter(left)
