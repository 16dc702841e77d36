"""Which values the factors of two equal products may have.

    constant * a * b * ... = constant * x * y * ...        every factor at least 1

Interval are first clipped to what the other factors leave; then each end is moved inwards past the values for which a
search finds no solution. The answer always holds every solution. It is the tightest where the equation has no more than
MAX_SEARCHED factors and the search is over within its step budget: any question costs a bounded multiple of a common
one. A step is what it takes to clip one factor of power 1; one of a higher power, whose numbers are longer, takes as
many as its power.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.dims import Interval
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.models import Equation

MAX_STEPS = 4000
MAX_SEARCHED = 12
_CLIP_ROUNDS = 8
_DIM_BITS = 64


class Factor(NamedTuple):
    """One unknown of an equation: `key` to tell it by, what it lies between, and its power."""

    key: int
    min: int
    max: int | None
    power: int

    @property
    def is_open(self) -> bool:
        """Whether nothing bounds it but what a dim may be at most."""
        return self.max is None or self.max >= MAX_DIM


class Side(NamedTuple):
    """One product.

    Attributes:
        constant: the number in it.
        factors: its unknowns.
        known: keys and values of those that have become part of the constant.
    """

    constant: int
    factors: tuple[Factor, ...]
    known: tuple[tuple[int, int], ...] = ()

    @property
    def steps(self) -> int:
        """What it takes to go through the factors once."""
        return sum([factor.power for factor in self.factors])

    def divide(self, divisor: int) -> "Side":
        """Returns the product over a divisor of its constant."""
        return self if divisor == 1 else self._replace(constant=self.constant // divisor)

    def find_least(self) -> int:
        """Returns the least value."""
        least = self.constant
        for factor in self.factors:
            least *= factor.min**factor.power
        return least

    def find_greatest(self) -> tuple[int, int]:
        """Returns the greatest value of the bounded factors' product, and how many factors have no bound."""
        greatest, unbounded = self.constant, 0
        for factor in self.factors:
            if factor.is_open or factor.max is None:
                unbounded += 1
            else:
                greatest *= factor.max**factor.power
        return greatest, unbounded


class Search:
    """A step budget: how much of the search may still be done.

    Attributes:
        left: how many steps are left; negative where more were spent than there were.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        """Starts with so many steps."""
        self.left = steps

    def spend(self, steps: int) -> bool:
        """Spends so many steps; returns whether there were as many left."""
        self.left -= steps
        return self.left >= 0


def narrow_factors(
    bounds: Sequence[Interval], equation: Equation, wanted: Iterable[int], search: Search | None = None
) -> dict[int, Interval] | None:
    """Returns the bounds of the wanted factors over all solutions, or None where there is none.

    Args:
        bounds: of every factor, by its key; what lies below 1 is left out.
        equation: cancelled.
        wanted: the keys of those whose bounds are to be returned.
        search: the step budget; None: a whole one.
    """
    positive = {key: _raise(bounds[key]) for key in {*equation.left, *equation.right, *wanted}}
    if any(bound.is_empty for bound in positive.values()):
        return None
    found = {key: positive[key] for key in wanted}
    left, right, constants = equation.left, equation.right, equation.constants
    if not left and not right:
        return found if constants[0] == constants[1] else None
    if constants[1] == 1 and len(right) == 1:  # the common case: one unknown is the product of all others
        product = _multiply(constants[0], (positive[key] for key in left))
        own = positive[right[0]]
        if own.min <= product.min and (own.max is None or own.max >= MAX_DIM):
            met = product.meet(own)
            if met.is_empty:
                return None
            return {**found, right[0]: met} if right[0] in found else found
    search = search or Search()
    sides = _clip(_make_side(constants[0], left, positive), _make_side(constants[1], right, positive), search)
    return None if sides is None else _narrow_all(found, sides, search)


def _narrow_all(found: dict[int, Interval], sides: tuple[Side, Side], search: Search) -> dict[int, Interval] | None:
    """Narrows what is found so far to the solutions of clipped sides."""
    factors = [factor for side in sides for factor in side.factors]
    found.update((key, Interval(value, value)) for side in sides for key, value in side.known if key in found)
    if len(factors) > MAX_SEARCHED:
        found.update((factor.key, Interval(factor.min, factor.max)) for factor in factors if factor.key in found)
        return found
    if not _is_solvable(*sides, search):
        return None
    for factor in factors:
        if factor.key not in found:
            continue
        narrowed = _narrow(factor, sides, search)
        if narrowed is None:
            return None
        found[factor.key] = narrowed
    return found


def _raise(bounds: Interval) -> Interval:
    return bounds if bounds.min else Interval(1, bounds.max)


def _multiply(constant: int, factors: Iterable[Interval]) -> Interval:
    low: int = constant
    high: int | None = constant
    for factor in factors:
        low *= factor.min
        high = None if high is None or factor.max is None else high * factor.max
    return Interval(low, high)


def _make_side(constant: int, keys: Sequence[int], bounds: Mapping[int, Interval]) -> Side:
    return Side(constant, tuple(Factor(key, *bounds[key], power) for key, power in Counter(keys).items()))


def _narrow(factor: Factor, sides: tuple[Side, Side], search: Search) -> Interval | None:
    """Moves both ends of one factor inwards past what has no solution."""
    low, high = factor.min, factor.max
    if len(sides[0].factors) == len(sides[1].factors) == 1 and _are_plain(sides):
        return Interval(low, high)  # one unknown on each side: the clipped bounds are exact

    def solves(value: int) -> bool:
        left, right = (_fix(side, factor.key, value) for side in sides)
        return _is_solvable(left, right, search)

    while not solves(low):
        low += 1
        if high is not None and low > high:
            return None
    while high is not None and not factor.is_open and high > low and not solves(high):
        high -= 1
    return Interval(low, high)


def _fix(side: Side, key: int, value: int) -> Side:
    constant, factors = side.constant, []
    for factor in side.factors:
        if factor.key == key:
            constant *= value**factor.power
        else:
            factors.append(factor)
    return Side(constant, tuple(factors))


def _is_solvable(left: Side, right: Side, search: Search) -> bool:
    """Whether the products can be equal; True also where the search has no steps left to find out."""
    if not search.spend(1):
        return True
    sides = _clip(left, right, search)
    if sides is None:
        return False
    left, right = sides
    factors = (*left.factors, *right.factors)
    if not factors:
        return left.constant == right.constant
    if all(any(factor.is_open for factor in side.factors) for side in sides):
        return True  # however the others are chosen, these two make the products equal
    if len(left.factors) == len(right.factors) == 1 and _are_plain(sides):
        return True
    return _branch(min(factors, key=_measure), sides, search)


def _branch(factor: Factor, sides: tuple[Side, Side], search: Search) -> bool:
    left, right = sides
    divided = 0 if right.factors and left.factors else (left.constant * right.constant)
    for value in range(factor.min, (MAX_DIM if factor.max is None else factor.max) + 1):
        if divided and divided % value:  # all unknowns are on one side: each divides the other
            if not search.spend(1):
                return True
            continue
        if _is_solvable(_fix(left, factor.key, value), _fix(right, factor.key, value), search):
            return True
    return False


def _measure(factor: Factor) -> int:
    return (MAX_DIM if factor.max is None else factor.max) - factor.min


def _are_plain(sides: tuple[Side, Side]) -> bool:
    return all(factor.power == 1 for side in sides for factor in side.factors)


def _clip(left: Side, right: Side, search: Search) -> tuple[Side, Side] | None:
    """Clips every factor to what the others leave, None where nothing is left; what is known becomes constant."""
    for _ in range(_CLIP_ROUNDS):
        if not search.spend(2 * (1 + left.steps + right.steps)):
            break  # what has been clipped so far is right as it is
        before = (left, right)
        for _ in before:
            divisor = gcd(left.constant, right.constant)
            left, right = left.divide(divisor), right.divide(divisor)
            clipped = _clip_side(left, right)
            if clipped is None:
                return None
            left, right = right, clipped
        if (left, right) == before:
            break
    return left, right


def _clip_side(side: Side, other: Side) -> Side | None:
    """Clips the factors of `side`; the constants have no common divisor."""
    if not side.factors:
        return side if _can_reach(side.constant, other) else None
    least, (greatest, unbounded) = side.find_least(), side.find_greatest()
    floor, (ceiling, open_ceiling) = other.find_least(), other.find_greatest()
    # The other constant divides this product: where one factor makes it, it steps by so much.
    step = other.constant if len(side.factors) == 1 and side.factors[0].power == 1 else 1
    constant, factors, known = side.constant, [], side.known
    for factor in side.factors:
        low, high = factor.min, factor.max
        if not open_ceiling:
            top = _root(ceiling // (least // factor.min**factor.power), factor.power)
            high = top if high is None else min(high, top)
        if unbounded == 0 or (unbounded == 1 and factor.is_open):
            rest = greatest if factor.is_open or factor.max is None else greatest // factor.max**factor.power
            low = max(low, _root_above(-(-floor // rest), factor.power))
        low = -(-low // step) * step
        if high is not None and high < MAX_DIM:
            high -= high % step
        if high is not None and high < low:
            return None
        if low == high:
            constant *= low**factor.power
            known = (*known, (factor.key, low))
        else:
            factors.append(Factor(factor.key, low, high, factor.power))
    return Side(constant, tuple(factors), known)


def _can_reach(value: int, side: Side) -> bool:
    """Whether a product may be `value`, as far as its bounds and its constant tell."""
    greatest, unbounded = side.find_greatest()
    return value % side.constant == 0 and side.find_least() <= value and (unbounded > 0 or value <= greatest)


def _root(value: int, power: int) -> int:
    """Returns the greatest integer whose `power` is at most `value`; of a power, not more than 2^64: no dim is."""
    if power == 1 or value == 0:
        return value
    if value.bit_length() > _DIM_BITS * power:
        return 1 << _DIM_BITS
    root = 1 << -(-value.bit_length() // power)  # Newton's steps from above
    while True:
        lower = ((power - 1) * root + value // root ** (power - 1)) // power
        if lower >= root:
            return root
        root = lower


def _root_above(value: int, power: int) -> int:
    """Returns the least integer whose `power` is at least `value`."""
    root = _root(value, power)
    return root if root**power >= value else root + 1
