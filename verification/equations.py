"""Equations of products over whole numbers, and a search for solutions.

The search splits equations by the variables that are 0, narrows ranges, and tries values: divisors of known numbers,
all values of a narrow range, and likely values of a wide one. If it finds no solution, there may still be one, because
the number of tries is limited.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from random import Random
from typing import NamedTuple, TypeAlias

_MAX_ALL = 2048  # ranges with at most this number of values are tried completely
_LIKELY = 24
_ROUNDS = 24
_LARGEST_PRIME, _LARGEST_FACTORED, _MAX_DIVISORS = 1 << 16, 1 << 64, 512

Spans: TypeAlias = list[tuple[int, int]]
"""The range of each variable, both ends included."""


class Relation(NamedTuple):
    """`above * left = below * right`, where the sides list variables, one for each power."""

    above: int
    left: tuple[int, ...]
    below: int
    right: tuple[int, ...]


class _Side(NamedTuple):
    """One side of an equation: the product of the known numbers, the same numbers one by one, and the unknowns."""

    known: int
    parts: list[int]
    unknown: list[int]


@dataclass(slots=True)
class Search:
    """The search for a solution, with the remaining number of tries, and the random numbers for wide ranges."""

    tries: int
    random: Random

    def find(self, spans: Spans, unsplit: Sequence[Relation], positive: Sequence[Relation] = ()) -> list[int] | None:
        """Returns a value for each variable; splits each equation: all are at least 1, or one of each side is 0."""
        if any(high < low for low, high in spans) or self.tries <= 0:
            return None
        if not unsplit:
            cancelled = list(map(_cancel, positive))
            narrowed = _narrow(spans, cancelled)
            return None if narrowed is None else self._solve(narrowed, cancelled)
        relation, *others = unsplit
        raised = list(spans)
        for key in (*relation.left, *relation.right):
            raised[key] = (max(raised[key][0], 1), raised[key][1])
        solution = self.find(raised, others, [*positive, relation])
        for pair in () if solution is not None else _list_zeros(spans, relation):
            self.tries -= 1
            solution = self.find([(0, 0) if key in pair else span for key, span in enumerate(spans)], others, positive)
            if solution is not None:
                break
        return solution

    def _solve(self, spans: Spans, relations: Sequence[Relation]) -> list[int] | None:
        """Returns a solution with every variable of the equations at least 1; the ranges are already narrowed."""
        left = [relation for relation in relations if not _is_settled(spans, relation)]
        if not left:
            return [low for low, _ in spans]
        if len(left) == 1:
            solved = _solve_two(spans, left[0])
            if solved is not None:
                return [solved.get(key, low) for key, (low, _) in enumerate(spans)] if solved else None
        for key, value in self._list_values(spans, left):
            self.tries -= 1
            if self.tries <= 0:
                break
            narrowed = _narrow([*spans[:key], (value, value), *spans[key + 1 :]], left)
            solution = None if narrowed is None else self._solve(narrowed, left)
            if solution is not None:
                return solution
        return None

    def _list_values(self, spans: Spans, relations: Sequence[Relation]) -> Iterator[tuple[int, int]]:
        """Yields values of one variable, in an order that is likely to reach a solution early."""
        lists = [found for relation in relations for found in self._list_divisors(spans, relation)]
        if lists:
            key, values = min(lists, key=lambda found: len(found[1]))
            yield from ((key, value) for value in values)
            return
        keys = {key for relation in relations for side in _read_sides(spans, relation) for key in side.unknown}
        key = min(keys, key=lambda one: (spans[one][1] - spans[one][0], one))
        low, high = spans[key]
        is_narrow = high - low < _MAX_ALL
        likely = self._list_likely(spans, relations, key, _LIKELY // 4 if is_narrow else _LIKELY)
        values = [*likely, *range(low, high + 1)] if is_narrow else likely
        yield from ((key, value) for value in dict.fromkeys(values))

    def _list_divisors(self, spans: Spans, relation: Relation) -> Iterator[tuple[int, list[int]]]:
        """Yields a variable that must divide a number, and its possible values."""
        left, right = _read_sides(spans, relation)
        side, other = (left, right) if left.unknown else (right, left)
        if not other.unknown:
            key = min(side.unknown, key=lambda one: spans[one][1] - spans[one][0])
            values = _find_divisors(other.parts, *spans[key])
            self.tries -= len(values) // _LIKELY
            yield key, values

    def _list_likely(self, spans: Spans, relations: Sequence[Relation], key: int, count: int) -> list[int]:
        """Returns multiples of a variable's required divisors at both ends and inside its range, and smooth numbers."""
        (low, high), steps, values = spans[key], [1], list[int]()
        for relation in relations:
            left, right = _read_sides(spans, relation)
            for side, other in ((left, right), (right, left)):
                if key in side.unknown:
                    found = _find_divisors(other.parts, 1, high)
                    steps += found[-4:] + self.random.sample(found, min(2, len(found)))
        for step in dict.fromkeys(reversed(steps)):
            first, last = -(-low // step), high // step
            if first <= last:
                span = [first, last, self.random.randint(first, last)]
                span += [1 << first.bit_length(), 1 << last.bit_length() - 1]
                values += [step * one for one in span if first <= one <= last]
        chosen = list(dict.fromkeys(values))
        self.random.shuffle(chosen)
        return list(dict.fromkeys([high, low, *chosen]))[:count]


def _list_zeros(spans: Spans, relation: Relation) -> list[frozenset[int]]:
    """Returns the pairs of variables that make both sides 0."""
    left, right = (
        [key for key in dict.fromkeys(keys) if spans[key][0] == 0] for keys in (relation.left, relation.right)
    )
    return list(dict.fromkeys(frozenset({one, other}) for one in left for other in right))


def _is_settled(spans: Spans, relation: Relation) -> bool:
    left, right = _read_sides(spans, relation)
    return not left.unknown and not right.unknown and left.known == right.known


def _read_sides(spans: Spans, relation: Relation) -> tuple[_Side, _Side]:
    sides = []
    for constant, keys in ((relation.above, relation.left), (relation.below, relation.right)):
        parts = [constant, *[spans[key][0] for key in keys if spans[key][0] == spans[key][1]]]
        sides.append(_Side(prod(parts), parts, [key for key in keys if spans[key][0] != spans[key][1]]))
    return sides[0], sides[1]


def _cancel(relation: Relation) -> Relation:
    """Returns an equation of numbers of at least 1, without the factors that both sides have."""
    left, right = Counter(relation.left), Counter(relation.right)
    above, below = ((*(side - (left & right)).elements(),) for side in (left, right))
    return relation._replace(left=above, right=below)


def _narrow(spans: Spans, relations: Sequence[Relation]) -> Spans | None:
    """Returns the ranges, each narrowed by the others, or None if a range is empty."""
    spans, changed = list(spans), True
    for _ in range(_ROUNDS):
        if not changed:
            break
        changed = False
        for relation in relations:
            left, right = _read_sides(spans, relation)
            for side, other in ((left, right), (right, left)):
                moved = _narrow_side(spans, side, other)
                if moved is None:
                    return None
                changed = changed or moved
                left, right = _read_sides(spans, relation)
                if not left.unknown and not right.unknown and left.known != right.known:
                    return None
    return spans


def _narrow_side(spans: Spans, side: _Side, other: _Side) -> bool | None:
    """Narrows the variables of one side in place; returns whether a range changed, or None if a range is empty."""
    if not other.unknown and (other.known % side.known or (not side.unknown and other.known != side.known)):
        return None
    # Reading a variable changes this side's ends, but not the ends of the other side, so only those are read in
    # advance.
    floor, ceiling = (other.known * prod(spans[key][end] for key in other.unknown) for end in (0, 1))
    common, moved = gcd(side.known, other.known), False
    for key, power in Counter(side.unknown).items():
        low, high = spans[key]
        rest = [one for one in side.unknown if one != key]
        least, most = (side.known * prod(spans[one][end] for one in rest) for end in (0, 1))
        new_low, new_high = max(low, _root(-(-floor // most) - 1, power) + 1), min(high, _root(ceiling // least, power))
        step = other.known // common if not rest and power == 1 else 1
        new_low, new_high = -(-new_low // step) * step, new_high // step * step
        if new_high < new_low:
            return None
        moved = moved or (new_low, new_high) != (low, high)
        spans[key] = (new_low, new_high)
    return moved


def _root(value: int, power: int) -> int:
    """Returns the greatest integer whose power is at most `value`, or -1 if `value` is below 0."""
    if power == 1 or value <= 0:
        return max(value, -1)
    low, high = 0, 1 << (value.bit_length() // power + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= value else (low, middle)
    return low


def _solve_two(spans: Spans, relation: Relation) -> dict[int, int] | None:
    """Solves an equation with at most one unknown of power 1 on each side; empty: no solution; None: another form."""
    left, right = _read_sides(spans, relation)
    if len(left.unknown) != 1 or len(right.unknown) != 1:
        return None
    (one,), (other,) = left.unknown, right.unknown
    common = gcd(left.known, right.known)
    above, below = left.known // common, right.known // common
    # above * one = below * other, so one = below * k and other = above * k.
    low = max(-(-spans[one][0] // below), -(-spans[other][0] // above))
    high = min(spans[one][1] // below, spans[other][1] // above)
    return {one: below * low, other: above * low} if low <= high else {}


@lru_cache(65536)
def _find_factors(number: int) -> Counter[int]:
    """Returns prime factors with their powers. A number that is too large to be factored stays as one factor."""
    factors, rest, prime = Counter[int](), number, 2
    while number <= _LARGEST_FACTORED and prime < _LARGEST_PRIME and prime * prime <= rest:
        while rest % prime == 0:
            rest //= prime
            factors[prime] += 1
        prime += 1 if prime == 2 else 2
    factors[rest] += rest > 1
    return +factors


def _find_divisors(parts: Iterable[int], low: int, high: int) -> list[int]:
    """Returns the divisors of the product of `parts` in a range, ascending. If there are very many, it returns some."""
    powers, divisors = Counter[int](), [1]
    for part in parts:
        powers.update(_find_factors(part))
    for prime, power in sorted(powers.items(), reverse=True):
        grown = [one * prime**exponent for one in divisors for exponent in range(power + 1)]
        divisors = [one for one in grown if one <= high]
        if len(divisors) > _MAX_DIVISORS:
            divisors = sorted(divisors)[:: 1 + len(divisors) // _MAX_DIVISORS]
    return sorted(one for one in divisors if one >= low)
