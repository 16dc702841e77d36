"""Facts about products of variables. Their normal form is a list of conditions that do not follow from each other.

A fact compares two ratios of products. The normal form of a fact is found in four steps:

1. If a variable has only one possible value, it is replaced by this number. A product with a factor of 0 is 0.

2. Common factors are removed from both sides. If a removed factor may be 0, the condition applies only if the factor is
   not 0.

3. A fact about one variable is solved for this variable. For example, `256*batch = 256` becomes `batch = 1`, and if 2
   divides 3*b, then 2 divides b.

4. A fact is dropped if it follows from the declared bounds or integer expressions, or from a solved fact.

A solved fact narrows the range of its variable, so the steps are repeated for the other facts until no range changes.

Invariants: within the declared bounds, the facts hold for the same instances before and after each step. The resulting
conditions depend only on the facts and their order.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, Expression, Interval, Symbol, make_expression, make_legal_expression
from tensor_reshape.rules.divisors import list_divisors
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.roots import find_root, find_root_above
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.products import (
    DIVIDES,
    EQUAL,
    RANGE,
    Found,
    Ratio,
    Sides,
    drop_implied,
    find_implied,
    is_solved,
    remove_keys,
)

_MAX_DIVISORS = 256  # if a number has more divisors than this, the divisors are not listed
_MAX_BITS = 64  # if a number has more bits than this, it is not factorised


class _Fact(NamedTuple):
    """A relation of two products: `left = right`, `left` divides `right`, or `left / right` is within `bounds`."""

    kind: ConditionKind
    left: Ratio
    right: Ratio
    bounds: Interval
    rule: int
    item: str

    def has_any(self, keys: set[int]) -> bool:
        """Whether the fact contains at least one of the variables."""
        return not (keys.isdisjoint(self.left.keys) and keys.isdisjoint(self.right.keys))


_CONTRADICTION = Found(EQUAL, Sides(0, (), 1, ()))


class Facts:
    """The facts of one query.

    Attributes:
        complete: whether every fact can be written as a condition.
    """

    def __init__(self, ranges: Sequence[Range], find_names: Callable[[], Mapping[int, str]]) -> None:
        """Creates a collection without facts.

        Args:
            ranges: the declared range of each variable, by its key.
            find_names: returns the names of the variables that a condition may contain, by key.
        """
        self.complete = True
        self._declared = ranges
        self._ranges = list(ranges)
        self._find_names = find_names
        self._names: Mapping[int, str] = {}
        self._facts = list[_Fact]()
        # for each variable that must be at least 1, the index of the item that requires this
        self._positive = dict[int, int]()
        # pairs of a number and a product of variables that this number divides in every instance
        self._steps = list[tuple[int, Counter[int]]]()

    def declare(self, ratio: Ratio) -> None:
        """Records that the value of a ratio is an integer in every instance."""
        step = ratio.divisor // gcd(ratio.divisor, ratio.number)
        if not ratio.divisors and step > 1:
            self._steps.append((step, Counter(ratio.keys)))

    def require_positive(self, key: int, index: int) -> None:
        """Requires that a variable is at least 1, because it is a factor of item `index`, which divides the -1."""
        self._positive.setdefault(key, index)

    def add(
        self,
        kind: ConditionKind,
        left: Ratio,
        right: Ratio,
        rule: int,
        item: str,
        bounds: Interval = ANY,
    ) -> None:
        """Adds a fact. The conditions are listed in the order in which their facts were added."""
        # Both sides are multiplied by the divisors of both sides, so that the fact compares products without divisors.
        upper = Ratio(left.number * right.divisor, (*left.keys, *right.divisors))
        lower = Ratio(right.number * left.divisor, (*right.keys, *left.divisors))
        self._facts.append(_Fact(kind, upper, lower, bounds, rule, item))

    def solve(self) -> tuple[tuple[Condition, ...], bool]:
        """Returns the conditions, and whether they contradict each other."""
        if len(self._facts) == 1 and not self._positive:
            return self._solve_alone(*self._facts)
        for key in self._positive:
            low, high = self._ranges[key]
            if high == 0:
                return (), True
            self._ranges[key] = Range(low or 1, high)
        found: dict[int, list[Found]] = {}
        pending = places = list(range(len(self._facts)))
        unsolved = set(places)
        while pending:
            moved = set[int]()
            for place in pending:
                found[place] = self._normalise(self._facts[place])
                if _CONTRADICTION in found[place]:
                    return (), True
                if all(map(is_solved, found[place])):
                    unsolved.remove(place)
                    moved.update(filter(None, map(self._narrow, found[place])))
            # The normal form of a fact depends only on the ranges of its own variables, so a fact is examined again
            # only if one of these ranges has changed.
            pending = [place for place in places if place in unsolved and self._facts[place].has_any(moved)]
        self._names = self._find_names()
        listed = [(self._facts[place], one) for place in sorted(found) for one in found[place]]
        implied = find_implied([one for _, one in listed], self._declared)
        written = [self._write_positive(*item) for item in self._positive.items() if not implied.make_positive(item[0])]
        written += [self._write(fact, one) for fact, one in drop_implied(listed, implied)]
        return self._finish(written), False

    def _solve_alone(self, fact: _Fact) -> tuple[tuple[Condition, ...], bool]:
        """Returns the conditions of a query that has only one fact, as most queries do."""
        found = self._normalise(fact)
        if not found or _CONTRADICTION in found:
            return (), bool(found)
        self._names = self._find_names()
        return self._finish([self._write(fact, one) for one in found]), False

    def _finish(self, written: Sequence[Condition | None]) -> tuple[Condition, ...]:
        self.complete = None not in written
        return tuple([condition for condition in written if condition is not None])

    def _narrow(self, found: Found) -> int | None:
        """Narrows the range of a solved variable. Returns the key of the variable; None if its range stays the same."""
        key = found.sides.left[0]
        low, high = found.interval
        own = self._ranges[key]
        self._ranges[key] = own.meet(Range(low, own.max if high is None else high))
        return None if self._ranges[key] == own else key

    def _normalise(self, fact: _Fact) -> list[Found]:
        above, left = self._fold(fact.left)
        below, right = self._fold(fact.right)
        if fact.kind is EQUAL:
            return self._equate(Sides(above, left, below, right))
        if fact.kind is DIVIDES:
            return self._divide(Sides(below, right, above, left))
        return self._bound(Sides(above, left, below, right), fact.bounds)

    def _fold(self, ratio: Ratio) -> tuple[int, tuple[int, ...]]:
        """Returns the number and the variables of a product. Variables with one value become a part of the number."""
        number, keys = ratio.number, list[int]()
        for key in ratio.keys:
            low, high = self._ranges[key]
            if low == high:
                number *= low
            else:
                keys.append(key)
        return number, tuple(keys)

    def _cancel(self, sides: Sides) -> Sides:
        """Returns the two products without their common factors.

        Lemma: cancel-unless-zero.
        """
        above, left, below, right, _ = sides
        shared: tuple[int, ...] = ()
        if not set(left).isdisjoint(right):
            common = Counter(left) & Counter(right)
            left, right = remove_keys(left, common), remove_keys(right, common)
            shared = tuple([key for key in common if self._ranges[key].min == 0])
        number = gcd(above, below)
        return Sides(above // number, left, below // number, right, shared)

    def _equate(self, whole: Sides) -> list[Found]:
        """Returns the normal form of an equality."""
        if whole.above == 0 or whole.below == 0:
            if whole.above == whole.below:
                return []
            return self._vanish(whole.right if whole.above == 0 else whole.left)
        sides = self._cancel(whole)
        if not sides.left:
            sides = Sides(sides.below, sides.right, sides.above, sides.left, sides.shared)
        if not sides.left:
            return [] if sides.above == sides.below else self._vanish_both(whole)
        if sides.right:
            return [Found(EQUAL, sides)]
        solved = self._solve_product(sides)
        return self._vanish_both(whole) if solved is None else [Found(EQUAL, solved)]

    def _solve_product(self, sides: Sides) -> Sides | None:
        """Returns the equality of a product and a number, solved for a single variable; None if it is never true."""
        least, greatest = self._limit(sides.left)
        if sides.above != 1 or not least <= sides.below or not (greatest is None or sides.below <= greatest):
            return None
        if len(set(sides.left)) > 1:
            return sides
        root = find_root(sides.below, len(sides.left))
        return sides._replace(left=sides.left[:1], below=root) if root ** len(sides.left) == sides.below else None

    def _divide(self, whole: Sides) -> list[Found]:
        """Returns the normal form of the fact that the right product divides the left product.

        Lemmas: quotient-is-divisibility, step-by-the-other-constant.
        """
        if whole.below == 0:
            return [] if whole.above == 0 else self._vanish(whole.left)
        if whole.above == 0:
            return []
        sides = self._cancel(whole)
        if sides.right:
            return self._divide_product(sides) if sides.left else self._divide_number(sides)
        if self._is_declared(sides.below, Counter(sides.left)):
            return []
        if len(set(sides.left)) == 1:
            return self._solve_multiple(sides)
        return [Found(DIVIDES, sides._replace(above=1))] if sides.left else self._fail(sides)

    def _solve_multiple(self, sides: Sides) -> list[Found]:
        """Returns the condition that a number divides a power of one variable."""
        key, power = sides.left[0], len(sides.left)
        step = _find_step(sides.below, power)
        if step is None:
            return [Found(DIVIDES, sides._replace(above=1))]
        if self._is_declared(step, Counter([key])):
            return []
        low, high = self._ranges[key]
        first, last = -(-low // step), high // step
        if first > last:
            return self._fail(sides)
        if first == last:
            return [Found(EQUAL, Sides(1, (key,), first * step, (), sides.shared))]
        return [Found(DIVIDES, Sides(1, (key,), step, (), sides.shared))]

    def _divide_number(self, sides: Sides) -> list[Found]:
        """Returns the condition that a product divides a number."""
        if sides.below != 1:
            return self._fail(sides)
        own = self._ranges[sides.right[0]]
        divisors = list_divisors(sides.above, _MAX_DIVISORS) if sides.above.bit_length() <= _MAX_BITS else None
        if len(sides.right) > 1 or divisors is None:
            return [Found(DIVIDES, sides)]
        values = [divisor for divisor in divisors if own.min <= divisor <= own.max]
        if not values:
            return self._fail(sides)
        if len(values) == 1:
            return [Found(EQUAL, Sides(1, sides.right, values[0], (), sides.shared))]
        return [] if len(values) == own.max - own.min + 1 else [Found(DIVIDES, sides)]

    def _divide_product(self, sides: Sides) -> list[Found]:
        """Returns the condition that a product divides another product with other variables."""
        low, high = self._ranges[sides.right[0]]
        if len(sides.right) == 1 and low > 0 and high - low < _MAX_DIVISORS:
            # If every possible value of the variable divides the number, the condition always holds.
            rests = [sides.above % (sides.below * value) for value in range(low, high + 1)]
            if not any(rests):
                return []
        return [Found(DIVIDES, sides)]

    def _bound(self, whole: Sides, bounds: Interval) -> list[Found]:
        """Returns the normal form of the fact that a quotient is within bounds. The divisor is at least 1."""
        if whole.above == 0:
            return [] if bounds.min == 0 else [_CONTRADICTION]
        sides, (low, high) = self._cancel(whole), bounds
        if sides.right:
            return [Found(RANGE, sides, bounds)] if bounds != ANY else []
        low = -(-low * sides.below // sides.above)
        high = None if high is None else high * sides.below // sides.above
        keys, power = sides.left, len(sides.left)
        if power > 1 and len(set(keys)) == 1:
            keys, low, high = keys[:1], find_root_above(low, power), None if high is None else find_root(high, power)
        least, greatest = declared = self._limit(keys)
        low, high = met = Interval(low, high).meet(declared)
        if met.is_empty:
            return [_CONTRADICTION]
        if met == declared:
            return []
        if low == high and len(keys) == 1:
            return [Found(EQUAL, Sides(1, keys, low, ()))]
        kept = Interval(0 if low == least else low, None if high == greatest else high)
        return [Found(RANGE, Sides(1, keys, 1, ()), kept)]

    def _limit(self, keys: Sequence[int]) -> Interval:
        """Returns the range of a product of variables."""
        least = greatest = 1
        is_open = False
        for key in keys:
            low, high = self._ranges[key]
            least *= low
            greatest *= high
            is_open = is_open or high >= MAX_DIM
        return Interval(least, None if is_open and greatest else greatest)

    def _vanish(self, keys: Iterable[int]) -> list[Found]:
        """Returns the condition that a product is 0.

        Lemma: product-of-zeros.
        """
        zeros = tuple(dict.fromkeys([key for key in keys if self._ranges[key].min == 0]))
        return [Found(EQUAL, Sides(1, zeros, 0, ()))] if zeros else [_CONTRADICTION]

    def _vanish_both(self, sides: Sides) -> list[Found]:
        """Returns the conditions that both products are 0, for products that have no other value in common."""
        (left,), (right,) = self._vanish(sides.left), self._vanish(sides.right)
        if _CONTRADICTION in (left, right):
            return [_CONTRADICTION]
        # If the zeros of one product are also factors of the other, one condition is sufficient.
        if set(left.sides.left) <= set(right.sides.left):
            return [left]
        return [right] if set(right.sides.left) <= set(left.sides.left) else [left, right]

    def _fail(self, sides: Sides) -> list[Found]:
        """Returns the condition that a removed common factor is 0, because the relation does not hold otherwise."""
        return self._vanish(sides.shared)

    def _is_declared(self, number: int, keys: Counter[int]) -> bool:
        """Whether a number always divides a product, because the expressions in the query have integer values."""
        for step, own in self._steps if number > 1 else ():
            while own <= keys:
                keys = keys - own
                number //= gcd(number, step)
        return number == 1

    def _write_positive(self, key: int, index: int) -> Condition | None:
        """Returns the condition that a variable is at least 1; None if the variable has no name."""
        if key not in self._names:
            return None
        product, item = make_expression(1, [self._get_symbol(key)]), f"shape[{index}]"
        if self._declared[key].max == 1:
            return Condition(EQUAL, product, make_expression(1, ()), rule=3, item=item)
        return Condition(RANGE, product, min=1, rule=3, item=item)

    def _write(self, fact: _Fact, found: Found) -> Condition | None:
        """Returns the condition with the names of its dims; None if a dim has no name or a number is too large."""
        kind, (above, left, below, right, shared), (low, high) = found
        unless = self._name(1, shared) if shared else None
        if shared and unless is None:
            return None
        if kind is RANGE:
            product = self._name(above, left, below, right)
            if product is None or max(low, high or 0) > MAX_DIM:
                return None
            return Condition(kind, product, None, low or None, high, unless, fact.rule, fact.item)
        first, second = self._name(above, left), self._name(below, right)
        if first is None or second is None:
            return None
        if kind is DIVIDES:
            first, second = second, first
        return Condition(kind, first, second, None, None, unless, fact.rule, fact.item)

    def _name(
        self, number: int, keys: Sequence[int], divisor: int = 1, divisors: Sequence[int] = ()
    ) -> Expression | None:
        """Returns a product of named variables; None if a variable has no name, or if the product is too large."""
        if not self._names.keys() >= {*keys, *divisors}:
            return None
        factors, below = [self._get_symbol(key) for key in keys], [self._get_symbol(key) for key in divisors]
        return make_legal_expression(number, factors, divisor, below)

    def _get_symbol(self, key: int) -> Symbol:
        low, high = self._declared[key]
        return Symbol(self._names[key], Interval(low, None if high >= MAX_DIM else high))


def _find_step(number: int, power: int) -> int | None:
    """Returns the least number whose power is a multiple of `number`; None if that takes too long.

    Lemma: divides-a-square.
    """
    if power == 1:
        return number
    divisors = list_divisors(number, _MAX_DIVISORS) if number.bit_length() <= _MAX_BITS else None
    return None if divisors is None else min(step for step in divisors if step**power % number == 0)
