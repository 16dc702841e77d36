"""The search for one solution of a reading: by cases of zeros, bounds, divisors, and values that are likely.

It ends with a solution, with the certainty that there is none, or undecided: a range was too wide to try all of it, or
the tries were used up.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod
from random import Random
from typing import NamedTuple, TypeAlias

from verification.tightness.factors import find_divisors
from verification.tightness.systems import Relation, Span

Spans: TypeAlias = list[Span]
_MAX_ALL = 2048  # so many values of a range are tried one by one
_LIKELY = 24


class _Side(NamedTuple):
    """One side of an equation: the product of what is known, its numbers one by one, and what is not known."""

    known: int
    parts: list[int]
    unknown: list[int]


@dataclass(slots=True)
class Search:
    """One search.

    Attributes:
        tries: how many values may be tried yet.
        complete: whether nothing was left out so far.
        random: chooses values of wide ranges.
    """

    tries: int
    random: Random
    complete: bool = True

    def find(self, spans: Sequence[Span], relations: Sequence[Relation]) -> list[int] | None:
        """Returns a value for each variable, or None: then there is no solution, if `complete`."""
        return self._split(list(spans), list(relations), [])

    def _split(self, spans: Spans, unsplit: Sequence[Relation], positive: Sequence[Relation]) -> list[int] | None:
        """Splits each equation in the cases that all is at least 1, and that one of each side is 0."""
        if any(high < low for low, high in spans) or self.tries <= 0:
            self.complete = self.complete and self.tries > 0
            return None
        if not unsplit:
            cancelled = [_cancel(one) for one in positive]
            narrowed = _narrow(spans, cancelled)
            return None if narrowed is None else self._solve(narrowed, cancelled)
        relation, *others = unsplit
        raised = list(spans)
        for key in (*relation.left, *relation.right):
            raised[key] = (max(raised[key][0], 1), raised[key][1])
        solution = self._split(raised, others, [*positive, relation])
        for pair in () if solution is not None else _list_zeros(spans, relation):
            self.tries -= 1
            zeroed = list(spans)
            for key in pair:
                zeroed[key] = (0, 0)
            solution = self._split(zeroed, others, positive)
            if solution is not None:
                break
        return solution

    def _solve(self, spans: Spans, relations: Sequence[Relation]) -> list[int] | None:
        """Returns a solution where every variable of the equations is at least 1 and their ranges are narrowed."""
        left = [relation for relation in relations if not _is_settled(spans, relation)]
        if not left:
            return [low for low, _ in spans]
        if len(left) == 1:
            solved = _solve_two(spans, left[0])
            if solved is not None:
                return _fix_all(spans, solved) if solved else None
        for key, value in self._list_values(spans, left):
            self.tries -= 1
            if self.tries <= 0:
                self.complete = False
                break
            narrowed = _narrow([*spans[:key], (value, value), *spans[key + 1 :]], left)
            solution = None if narrowed is None else self._solve(narrowed, left)
            if solution is not None:
                return solution
        return None

    def _list_values(self, spans: Spans, relations: Sequence[Relation]) -> Iterator[tuple[int, int]]:
        """Yields the values of one variable, in an order that is likely to meet a solution."""
        lists = [(*self._list_divisors(spans, relation), relation) for relation in relations]
        divisors = min((one for one in lists if one[0] is not None), key=lambda one: len(one[1]), default=None)
        if divisors is not None:
            key, values, complete, _ = divisors
            self.complete = self.complete and complete
            yield from ((key or 0, value) for value in values)
            return
        keys = {key for relation in relations for key in _unknown(spans, relation)}
        key = min(keys, key=lambda one: (spans[one][1] - spans[one][0], one))
        low, high = spans[key]
        if high - low < _MAX_ALL:
            likely = self._list_likely(spans, relations, key, _LIKELY // 4)
            yield from ((key, value) for value in dict.fromkeys([*likely, *range(low, high + 1)]))
            return
        self.complete = False
        yield from ((key, value) for value in self._list_likely(spans, relations, key, _LIKELY))

    def _list_divisors(self, spans: Spans, relation: Relation) -> tuple[int | None, list[int], bool]:
        """Returns the values of a variable that has to divide a number, with its key; None: there is none."""
        left, right = _read_sides(spans, relation)
        side, other = (left, right) if left.unknown else (right, left)
        if other.unknown:
            return None, [], True
        key = min(side.unknown, key=lambda one: spans[one][1] - spans[one][0])
        values, complete = find_divisors(other.parts, *spans[key])
        self.tries -= len(values) // _LIKELY
        return key, values, complete

    def _list_likely(self, spans: Spans, relations: Sequence[Relation], key: int, count: int) -> list[int]:
        """Returns multiples of what has to divide a variable's side, near its ends and anywhere, and smooth numbers."""
        low, high = spans[key]
        steps = [1]
        for relation in relations:
            left, right = _read_sides(spans, relation)
            for side, other in ((left, right), (right, left)):
                if key in side.unknown:
                    found, _ = find_divisors(other.parts, 1, high)
                    steps += found[-4:] + self.random.sample(found, min(2, len(found)))
        values = list[int]()
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
    left = [key for key in dict.fromkeys(relation.left) if spans[key][0] == 0]
    right = [key for key in dict.fromkeys(relation.right) if spans[key][0] == 0]
    return list(dict.fromkeys(frozenset({one, other}) for one in left for other in right))


def _unknown(spans: Spans, relation: Relation) -> list[int]:
    return [key for key in (*relation.left, *relation.right) if spans[key][0] != spans[key][1]]


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
    """Returns an equation of what is at least 1 without what stands on both sides."""
    left, right = Counter(relation.left), Counter(relation.right)
    shared = left & right
    above, below = ((*(side - shared).elements(),) for side in (left, right))
    return relation._replace(left=above, right=below)


def _narrow(spans: Spans, relations: Sequence[Relation]) -> Spans | None:
    """Returns the ranges narrowed to what the others leave; None where nothing is left."""
    spans, changed = list(spans), True
    rounds = 0
    while changed and rounds < _LIKELY:
        changed, rounds = False, rounds + 1
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
    """Narrows the variables of one side in place; returns whether one moved, None where nothing is left."""
    if not other.unknown and (other.known % side.known or (not side.unknown and other.known != side.known)):
        return None
    # What is on the one side moves with each variable that is read, so the other's ends are read once, this one's not.
    floor = other.known * prod(spans[key][0] for key in other.unknown)
    ceiling = other.known * prod(spans[key][1] for key in other.unknown)
    common = gcd(side.known, other.known)
    moved = False
    for key, power in Counter(side.unknown).items():
        low, high = spans[key]
        rest = [one for one in side.unknown if one != key]
        least = side.known * prod(spans[one][0] for one in rest)
        most = side.known * prod(spans[one][1] for one in rest)
        new_low, new_high = max(low, _root(-(-floor // most) - 1, power) + 1), min(high, _root(ceiling // least, power))
        step = other.known // common if not rest and power == 1 else 1
        new_low, new_high = -(-new_low // step) * step, new_high // step * step
        if new_high < new_low:
            return None
        moved = moved or (new_low, new_high) != (low, high)
        spans[key] = (new_low, new_high)
    return moved


def _root(value: int, power: int) -> int:
    """Returns the greatest integer whose power is at most `value`; -1 below 0."""
    if power == 1 or value <= 0:
        return max(value, -1)
    low, high = 0, 1 << (value.bit_length() // power + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power <= value else (low, middle)
    return low


def _solve_two(spans: Spans, relation: Relation) -> dict[int, int] | None:
    """Solves an equation of at most one unknown on each side, of power 1; empty: no solution; None: it is another."""
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


def _fix_all(spans: Spans, values: dict[int, int]) -> list[int]:
    return [values.get(key, low) for key, (low, _) in enumerate(spans)]
