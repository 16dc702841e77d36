"""Narrows the ranges of variables by bounds propagation over one equation, followed by a search with a budget.

    constant * a * b * ... = constant * x * y * ...        each variable is at least 1

First, the range of each variable is clipped to the values that the ranges of the other variables allow. Clipping is
repeated until no range changes. Then both ends of each range move inwards past values without a solution. To find out
whether a value has a solution, a search fixes the variable at this value, clips the other ranges, and tries the values
of another variable.

Invariant: no step loses a solution. The ranges therefore contain every solution, even if the budget ends the work
early. The ranges are as tight as possible if the equation has at most MAX_SEARCHED variables and the search finishes
within its budget.

Termination: clipping visits the variables at most _CLIP_ROUNDS times, and each branch of the search fixes one variable.

Budget: a round of clipping costs two steps, plus two steps for each variable. A power of a variable costs two steps for
each factor, because powers have longer numbers. For example, x^3 costs six steps. Each tried value costs one step, plus
the steps of the clipping rounds that follow. The budget therefore limits the work of any query.

An open variable (see `solvers.equations`) has no upper bound. The upper end of an open range cannot move, and an open
variable does not bound other variables. If both sides have an open variable, the products can be equal for any values
of the other variables.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.limits import MAX_DIM, StepBudget
from tensor_reshape.rules.products import Product, find_root, find_root_above
from tensor_reshape.rules.solvers.equations import UNBOUNDED, Range
from tensor_reshape.rules.solvers.splits import bound_quotient

MAX_SEARCHED = 12
"""The largest number of variables for a search. If there are more variables, the ranges are only clipped, because a
search would use up the budget before it moved an end.
"""

_CLIP_ROUNDS = 8  # most ranges do not change after two or three rounds
_QUOTIENT = -1  # every quotient has this key, because a quotient is not a variable of the query


class Factor(NamedTuple):
    """A power of one variable, with the key and the range of the variable."""

    key: int
    min: int
    max: int
    power: int

    @property
    def is_open(self) -> bool:
        """Whether the variable has no upper bound except the largest dim."""
        return self.max >= MAX_DIM


class Side(NamedTuple):
    """One side of the equation, with the ranges of its variables. The search narrows these ranges.

    Attributes:
        constant: the numeric factor.
        factors: the powers of the variables whose values are not known.
        known: the keys and values of variables whose values are already factors of the constant.
    """

    constant: int
    factors: tuple[Factor, ...]
    known: tuple[tuple[int, int], ...] = ()

    @property
    def steps(self) -> int:
        """The number of steps of the budget that one visit of all factors costs."""
        return sum([factor.power for factor in self.factors])

    @property
    def is_open(self) -> bool:
        """Whether at least one variable of the product is open."""
        return any(factor.max >= MAX_DIM for factor in self.factors)

    def divide(self, divisor: int) -> "Side":
        """Returns the product divided by a divisor of its constant.

        See the lemma cancel-divisor in `verification/lemmas.py`.
        """
        return self if divisor == 1 else self._replace(constant=self.constant // divisor)

    def find_least(self) -> int:
        """Returns the smallest value of the product.

        See the lemma product-bounds in `verification/lemmas.py`.
        """
        least = self.constant
        for factor in self.factors:
            least *= factor.min**factor.power
        return least

    def find_greatest(self) -> tuple[int, int]:
        """Returns the largest product of the bounded factors, and the number of open factors."""
        greatest, unbounded = self.constant, 0
        for factor in self.factors:
            if factor.max >= MAX_DIM:
                unbounded += 1
            else:
                greatest *= factor.max**factor.power
        return greatest, unbounded


def narrow_ranges(
    ranges: Sequence[Range], equation: Product[int], wanted: Iterable[int], budget: StepBudget | None = None
) -> dict[int, Range] | None:
    """Returns the ranges of some variables over all solutions of the equation, or None if there is no solution.

    See the lemma nonempty-dims in `verification/lemmas.py`.

    Args:
        ranges: the range of every variable, by its key. Values below 1 are ignored.
        equation: the equation in lowest terms. The product of its factors equals the product of its divisors.
        wanted: the keys of the variables to return.
        budget: the step budget. By default, the budget has MAX_STEPS steps.
    """
    positive = {key: _raise(ranges[key]) for key in {*equation.factors, *equation.divisors, *wanted}}
    if any(own.is_empty for own in positive.values()):
        return None
    found = {key: positive[key] for key in wanted}
    above, left, below, right = equation
    # The equation does not restrict variables that it does not contain, so the ranges of these variables are final.
    if not left and not right:
        return found if above == below else None
    # In the common case, a variable without an upper bound is the product of all other variables, so no search is
    # needed for its range.
    if below == 1 and len(right) == 1 and positive[right[0]].is_open:
        product = _multiply(above, [positive[key] for key in left])
        own = positive[right[0]]
        # Both ends of the product are possible values, because all factors can be at their ends. If the lower end of
        # the variable's range were higher than the smallest product, that end could lie between two possible products.
        if own.min <= product.min:
            met = product.meet(own)
            if met.is_empty:
                return None
            return {**found, right[0]: met} if right[0] in found else found
    budget = budget or StepBudget()
    sides = _clip(_build_side(above, left, positive), _build_side(below, right, positive), budget)
    sides = None if sides is None else _clip_quotients(sides, budget)
    return None if sides is None else _narrow_all(found, sides, budget)


def _narrow_all(found: dict[int, Range], sides: tuple[Side, Side], budget: StepBudget) -> dict[int, Range] | None:
    """Narrows the ranges in `found` to the values that have a solution. Both sides have already been clipped."""
    factors = [factor for side in sides for factor in side.factors]
    found.update((key, Range(value, value)) for side in sides for key, value in side.known if key in found)
    if len(factors) > MAX_SEARCHED:
        found.update((factor.key, Range(factor.min, factor.max)) for factor in factors if factor.key in found)
        return found
    # It is sufficient to check once whether there is a solution. If there is a solution, each end of a range can move
    # inwards until it reaches the value of a solution.
    if not _is_solvable(*sides, budget):
        return None
    for factor in factors:
        if factor.key not in found:
            continue
        narrowed = _narrow(factor, sides, budget)
        if narrowed is None:
            return None
        found[factor.key] = narrowed
    return found


def _raise(own: Range) -> Range:
    return own if own.min else Range(1, own.max)


def _multiply(constant: int, ranges: Iterable[Range]) -> Range:
    """Returns the range of a product, whose upper end is UNBOUNDED if one of the ranges is open.

    See the lemma product-bounds in `verification/lemmas.py`.
    """
    low = high = constant
    is_open = False
    for own in ranges:
        low *= own.min
        if own.is_open:
            is_open = True  # the upper ends are not multiplied, because UNBOUNDED has thousands of digits
        else:
            high *= own.max
    return Range(low, UNBOUNDED if is_open else high)


def _build_side(constant: int, keys: Sequence[int], ranges: Mapping[int, Range]) -> Side:
    return Side(constant, tuple([Factor(key, *ranges[key], power) for key, power in Counter(keys).items()]))


def _narrow(factor: Factor, sides: tuple[Side, Side], budget: StepBudget) -> Range | None:
    """Moves both ends of one variable inwards past values without a solution.

    See the lemma ends-of-two in `verification/lemmas.py`.
    """
    low, high = factor.min, factor.max
    if len(sides[0].factors) == len(sides[1].factors) == 1 and _are_linear(sides):
        # if each side of the equation has one variable, clipping has already found the exact range of both
        return Range(low, high)

    def solves(value: int) -> bool:
        left, right = (_fix(side, factor.key, value) for side in sides)
        return _is_solvable(left, right, budget)

    # Each end of the range moves by one value at a time, because there may be values without a solution between values
    # with a solution. The budget limits the number of tried values.
    while not solves(low):
        low += 1
        if low > high:
            return None
    while not factor.is_open and high > low and not solves(high):
        high -= 1
    return Range(low, high)


def _fix(side: Side, key: int, value: int) -> Side:
    """Returns the side of the equation after one variable has been replaced by its value."""
    constant, factors = side.constant, []
    for factor in side.factors:
        if factor.key == key:
            constant *= value**factor.power
        else:
            factors.append(factor)
    return Side(constant, tuple(factors))


def _is_solvable(left: Side, right: Side, budget: StepBudget) -> bool:
    """Returns whether the products can be equal. The result is also True if too few steps are left to find out.

    See the lemma two-open-ends in `verification/lemmas.py`.
    """
    if not budget.spend(1):
        return True
    sides = _clip(left, right, budget)
    if sides is None:
        return False
    left, right = sides
    factors = (*left.factors, *right.factors)
    if not factors:
        return left.constant == right.constant
    if left.is_open and right.is_open:
        return True
    if len(left.factors) == len(right.factors) == 1 and _are_linear(sides):
        return True
    # The search branches on the variable with the narrowest range, which has the fewest values to try.
    return _branch(min(factors, key=lambda factor: factor.max - factor.min), sides, budget)


def _branch(factor: Factor, sides: tuple[Side, Side], budget: StepBudget) -> bool:
    """Whether the products can be equal for at least one value of the variable in `factor`.

    See the lemma one-side-divides in `verification/lemmas.py`.
    """
    left, right = sides
    divided = 0 if right.factors and left.factors else (left.constant * right.constant)
    for value in range(factor.min, factor.max + 1):
        if divided and divided % value:  # if the other side is only a number, each variable divides that number
            if not budget.spend(1):
                return True
            continue
        if _is_solvable(_fix(left, factor.key, value), _fix(right, factor.key, value), budget):
            return True
    return False


def _are_linear(sides: Iterable[Side]) -> bool:
    return all(factor.power == 1 for side in sides for factor in side.factors)


def _clip(left: Side, right: Side, budget: StepBudget) -> tuple[Side, Side] | None:
    """Clips every range to the values that the other ranges allow; None if a range becomes empty.

    A variable with only one possible value becomes a part of the constant of its side.
    """
    for _ in range(_CLIP_ROUNDS):
        if not budget.spend(2 * (1 + left.steps + right.steps)):
            break  # after the budget is used up, the ranges that have been clipped so far are still valid
        before = (left, right)
        # The constants are divided by their common divisor, because each constant must then divide the variables of the
        # other side. For example, 4 * a = 6 * x becomes 2 * a = 3 * x, so a is a multiple of 3.
        for _ in before:
            divisor = gcd(left.constant, right.constant)
            left, right = left.divide(divisor), right.divide(divisor)
            clipped = _clip_side(left, right)
            if clipped is None:
                return None
            # the two sides swap places in each turn, so they are back in their original places after two turns
            left, right = right, clipped
        if (left, right) == before:
            break
    return left, right


def _clip_side(side: Side, other: Side) -> Side | None:
    """Clips the variables of `side`. The constants of both sides must have no common divisor.

    See the lemmas clip-above, clip-below and step-by-the-other-constant in `verification/lemmas.py`.
    """
    if not side.factors:
        return side if _can_reach(side.constant, other) else None
    least, (greatest, unbounded) = side.find_least(), side.find_greatest()
    floor, (ceiling, open_ceiling) = other.find_least(), other.find_greatest()
    # The constants have no common divisor, so the variables of `side` have a product that is a multiple of
    # `other.constant`. If there is only one variable, its value is a multiple of that constant.
    step = other.constant if len(side.factors) == 1 and side.factors[0].power == 1 else 1
    constant, factors, known = side.constant, [], side.known
    for factor in side.factors:
        low, high, power = factor.min, factor.max, factor.power
        is_open = high >= MAX_DIM
        # An upper bound of the factor is the largest product of the other side, divided by the smallest values of all
        # other factors.
        if not open_ceiling:
            high = min(high, find_root(ceiling // (least // low**power), power))
        # If all other factors have an upper bound, a lower bound of the factor is the smallest product of the other
        # side, divided by the largest values of these factors.
        if unbounded == 0 or (unbounded == 1 and is_open):
            rest = greatest if is_open else greatest // factor.max**power
            low = max(low, find_root_above(-(-floor // rest), power))
        low = -(-low // step) * step
        # if the range has no upper bound, its end is not rounded down, because a smaller end would be an upper bound
        if high < MAX_DIM:
            high -= high % step
        if high < low:
            return None
        if low == high:
            constant *= low**power
            known = (*known, (factor.key, low))
        else:
            factors.append(Factor(factor.key, low, high, power))
    return Side(constant, tuple(factors), known)


def _clip_quotients(sides: tuple[Side, Side], budget: StepBudget) -> tuple[Side, Side] | None:
    """Clips each side to the exact range of a quotient, which is the other side divided by this side's constant.

    The constant divides the product of the variables of the other side, and `bound_quotient` bounds the quotient. The
    quotients are bounded only once and not in each round of clipping, because their bounds cost as many steps as dozens
    of rounds and would not help a search.
    """
    for _ in sides:
        side, other = sides
        common = gcd(side.constant, other.constant)
        constant = side.constant // common
        # If the other side has only one variable, `_clip_side` has already moved its ends to multiples of the constant.
        # `bound_quotient` does not support powers, and needs the upper end of each variable.
        if constant > 1 and len(other.factors) > 1 and not other.is_open and _are_linear((other,)):
            own = bound_quotient([Range(factor.min, factor.max) for factor in other.factors], constant, budget)
            if own is not None:
                quotient = Side(other.constant // common, (Factor(_QUOTIENT, *own, 1),))
                clipped = None if own.is_empty else _clip_side(side._replace(constant=1), quotient)
                if clipped is None:
                    return None
                side = clipped._replace(constant=clipped.constant * side.constant)
        sides = other, side
    return sides


def _can_reach(value: int, side: Side) -> bool:
    """Whether `value` is within the bounds of a product and is a multiple of its constant.

    See the lemma reach-a-number in `verification/lemmas.py`.
    """
    greatest, unbounded = side.find_greatest()
    return value % side.constant == 0 and side.find_least() <= value and (unbounded > 0 or value <= greatest)
