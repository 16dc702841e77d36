"""Conditions in which variables do not have their names yet, and the search for those that follow from others."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from tensor_reshape.rules.conditions import ConditionKind
from tensor_reshape.rules.dims import ANY, Interval
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.solvers.equations import Range

EQUAL, DIVIDES, RANGE = ConditionKind

AnyFact = TypeVar("AnyFact")


class Found(NamedTuple):
    """A condition in which variables are identified by their keys and not by names.

    Attributes:
        kind: the kind of the condition.
        quotient: the quotient of the two products that the condition compares. It is 1 if the kind is EQUAL, an integer
            if the kind is DIVIDES, and within `bounds` if the kind is RANGE. One of its numbers may be 0.
        bounds: the range of the quotient, if the kind is RANGE.
        shared: the variables that were removed from both products, if they may be 0.
    """

    kind: ConditionKind
    quotient: Product[int]
    bounds: Interval = ANY
    shared: tuple[int, ...] = ()

    @property
    def interval(self) -> Interval:
        """The range of the variable, if the condition is solved for one variable."""
        return self.bounds if self.kind is RANGE else Interval(self.quotient.divisor, self.quotient.divisor)


def is_solved(found: Found) -> bool:
    """Whether the condition gives the value or the range of one variable."""
    above, left, _, right = found.quotient
    return found.kind is not DIVIDES and len(left) == above == 1 and not right and not found.shared


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
        _, left, number, right = found.quotient
        return not right and any(step % number == 0 and own <= Counter(left) for step, own in self.multiples)

    def have_stronger(self, found: Found) -> bool:
        """Whether another condition has the same relation with fewer exceptions, or equates the two products."""
        own, equal = set(found.shared), found._replace(kind=EQUAL)
        is_equal = found.kind is DIVIDES and any(other <= own for other in self.exceptions.get(_relate(equal), ()))
        return is_equal or any(other < own for other in self.exceptions[_relate(found)])


def _relate(found: Found) -> Hashable:
    """Returns the kind of a condition and its two products, which are equal for `A = B*C` and `C*B = A`."""
    above, left, below, right = found.quotient
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
        implied.exceptions.setdefault(_relate(found), []).append(set(found.shared))
        if not is_solved(found):
            implied.positive.update(_list_positive(found, declared))
            implied.multiples.extend(_list_multiples(found))
            continue
        key, (low, high) = found.quotient.factors[0], found.bounds
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
            key, (low, high) = found.quotient.factors[0], found.bounds
            low = lows.pop(key) if low and lows.get(key) == low else 0
            high = highs.pop(key) if high is not None and highs.get(key) == high else None
            if key in known or (low == 1 and key in implied.positive):
                low = 0
            kept = found._replace(bounds=Interval(low, None if key in known else high))
            if kept.bounds == ANY:
                continue
        one = _relate(kept), frozenset(kept.shared)
        if one not in seen:
            seen.add(one)
            yield fact, kept


def _list_positive(found: Found, declared: Sequence[Range]) -> Sequence[int]:
    """Returns the variables that are at least 1, because a condition compares their product with a product above 0.

    Lemma: factors-of-elements.
    """
    above, left, below, right = found.quotient
    if found.shared or found.kind is RANGE:
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
    above, left, below, right = found.quotient
    if found.kind is EQUAL and not found.shared:
        if below == 1 < above:
            yield above, Counter(right)
        if above == 1 < below:
            yield below, Counter(left)
