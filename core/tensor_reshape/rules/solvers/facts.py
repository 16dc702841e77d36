"""Brings facts about products of variables into a normal form, in which no condition follows from other conditions.

A fact says that the quotient of two products is 1, that it is an integer, or that it is within bounds. The normal form
of a fact is found in four steps:

1. If a variable has only one possible value, it is replaced by this number. A product with a factor of 0 is 0.

2. Common factors are removed from both sides. If a removed factor may be 0, the condition applies only if the factor is
   not 0.

3. A fact about one variable is solved for this variable. For example, `256*batch = 256` becomes `batch = 1`, and if 2
   divides 3*b, then 2 divides b.

4. A fact is dropped if it follows from the declared bounds, from the integer values of expressions, or from a solved
   fact.

A solved fact narrows the range of its variable, so the steps are repeated for the other facts until no range changes.

Invariants: within the declared bounds, the facts hold for the same instances before and after each step. The resulting
conditions depend only on the facts and their order.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, Expression, Interval, Symbol
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.products import Product, find_exact_root, find_root, find_root_above, list_divisors
from tensor_reshape.rules.solvers.equations import Range, fold, name_product

EQUAL, DIVIDES, RANGE = ConditionKind


class Found(NamedTuple):
    """A condition in which variables are identified by their keys and not by names.

    Attributes:
        kind: the kind of the condition.
        quotient: the quotient of the two products that the condition compares. It is 1 if the kind is EQUAL, an integer
            if the kind is DIVIDES, and within `bounds` if the kind is RANGE. Either its coefficient or its divisor may
            be 0.
        bounds: the range of the quotient, if the kind is RANGE.
        shared: the variables that were removed from both products and may be 0. If one of them is 0, the condition does
            not apply.
        rule: the number of the rule that requires the condition.
        item: the part of the query that requires the condition.
    """

    kind: ConditionKind
    quotient: Product[int]
    bounds: Interval = ANY
    shared: tuple[int, ...] = ()
    rule: int = 0
    item: str = ""

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
        known: the variables with only one possible value.
        lows: the lower bounds of variables, by the key of the variable.
        highs: the upper bounds of variables, by the key of the variable.
        positive: the variables that must be at least 1, because a condition compares their product with a product above
            0.
        multiples: pairs of a number and variables. The product of the variables is a multiple of the number, because a
            condition says that this product equals another product with the number as a factor.
        exceptions: lists of sets of variables, by the relation of two products. Each set belongs to one condition with
            this relation. If a variable of the set is 0, the condition does not apply.
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
        """Whether an equality among the conditions implies that a product is divisible by the number in `found`."""
        _, left, number, right = found.quotient
        return not right and any(step % number == 0 and own <= Counter(left) for step, own in self.multiples)

    def have_stronger(self, found: Found) -> bool:
        """Whether another condition is the same but has fewer exceptions, or says that the two products are equal."""
        own, equal = set(found.shared), found._replace(kind=EQUAL)
        is_equal = found.kind is DIVIDES and any(other <= own for other in self.exceptions.get(_relate(equal), ()))
        return is_equal or any(other < own for other in self.exceptions[_relate(found)])


def _relate(found: Found) -> Hashable:
    """Returns the kind, the bounds and the products of a condition as a key.

    `A = B*C` and `C*B = A` have the same key.
    """
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


def drop_implied(listed: Iterable[Found], implied: Implied) -> Iterator[Found]:
    """Yields the conditions that do not follow from another condition."""
    known, lows, highs = implied.known, dict(implied.lows), dict(implied.highs)
    seen = set[tuple[Hashable, frozenset[int]]]()
    for found in listed:
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
            yield kept


def _list_positive(found: Found, declared: Sequence[Range]) -> Sequence[int]:
    """Returns the variables that are at least 1, because a condition compares their product with a product above 0.

    See the lemma factors-of-elements in `verification/lemmas.py`.
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
    """Yields each number that divides a product because of an equality, and the product.

    See the lemma equal-to-a-multiple in `verification/lemmas.py`.
    """
    above, left, below, right = found.quotient
    if found.kind is EQUAL and not found.shared:
        if below == 1 < above:
            yield above, Counter(right)
        if above == 1 < below:
            yield below, Counter(left)


_MAX_DIVISORS = 256  # if a number has more divisors than this, the divisors are not listed
_MAX_BITS = 64  # if a number has more bits than this, it is not factorised


_CONTRADICTION = Found(EQUAL, Product(0, ()))


class Facts:
    """The facts of one query.

    Attributes:
        complete: whether every fact can be written as a condition.
    """

    def __init__(self, ranges: Sequence[Range], find_symbols: Callable[[], Mapping[int, Symbol]]) -> None:
        """Creates a collection without facts.

        Args:
            ranges: the declared range of each variable, by its key.
            find_symbols: the function that returns the symbol of each variable that a condition may contain, by key.
        """
        self.complete = True
        self._declared = ranges
        self._ranges = list(ranges)
        self._find_symbols = find_symbols
        self._symbols: Mapping[int, Symbol] = {}
        self._facts = list[Found]()
        # for each variable that must be at least 1, the index of the item that requires this
        self._positive = dict[int, int]()
        # pairs of a number and a product of variables that this number divides in every instance
        self._steps = list[tuple[int, Counter[int]]]()

    def declare(self, product: Product[int]) -> None:
        """Records that the value of a product is an integer in every instance."""
        step = product.divisor // gcd(product.divisor, product.coefficient)
        if not product.divisors and step > 1:
            self._steps.append((step, Counter(product.factors)))

    def require_positive(self, key: int, index: int) -> None:
        """Requires that a variable is at least 1, because it is a factor of item `index`, which divides the -1."""
        self._positive.setdefault(key, index)

    def add(self, kind: ConditionKind, quotient: Product[int], rule: int, item: str, bounds: Interval = ANY) -> None:
        """Adds a fact. The conditions are listed in the order in which their facts were added."""
        self._facts.append(Found(kind, quotient, bounds, (), rule, item))

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
            pending = [place for place in places if place in unsolved and _has_any(self._facts[place].quotient, moved)]
        self._symbols = self._find_symbols()
        listed = [one for place in sorted(found) for one in found[place]]
        implied = find_implied(listed, self._declared)
        written = [self._write_positive(*item) for item in self._positive.items() if not implied.make_positive(item[0])]
        written += [self._write(one) for one in drop_implied(listed, implied)]
        return self._finish(written), False

    def _solve_alone(self, fact: Found) -> tuple[tuple[Condition, ...], bool]:
        """Returns the conditions of a query that has only one fact, as most queries do."""
        found = self._normalise(fact)
        if not found or _CONTRADICTION in found:
            return (), bool(found)
        self._symbols = self._find_symbols()
        return self._finish([self._write(one) for one in found]), False

    def _finish(self, written: Sequence[Condition | None]) -> tuple[Condition, ...]:
        self.complete = None not in written
        return tuple([condition for condition in written if condition is not None])

    def _narrow(self, found: Found) -> int | None:
        """Narrows the range of a solved variable. Returns the key of the variable; None if its range stays the same."""
        key = found.quotient.factors[0]
        low, high = found.interval
        own = self._ranges[key]
        self._ranges[key] = own.meet(Range(low, own.max if high is None else high))
        return None if self._ranges[key] == own else key

    def _normalise(self, fact: Found) -> list[Found]:
        whole = fact._replace(quotient=fold(fact.quotient, self._ranges, 0))
        find = self._equate if fact.kind is EQUAL else self._divide if fact.kind is DIVIDES else self._bound
        return [
            one if one is _CONTRADICTION else one._replace(rule=fact.rule, item=fact.item)
            for one in find(whole)
            if not self._is_sure(one)
        ]

    def _is_sure(self, found: Found) -> bool:
        """Whether an equality always holds, because it applies only if each of its variables is 1."""
        (coefficient, factors, divisor, divisors), shared = found.quotient, found.shared
        is_equality = found.kind is EQUAL and coefficient == divisor
        return is_equality and all(key in shared and self._ranges[key].max == 1 for key in (*factors, *divisors))

    def _cancel(self, whole: Found) -> Found:
        """Returns the condition without the common factors of its two products.

        See the lemma cancel-unless-zero in `verification/lemmas.py`.
        """
        quotient, removed = whole.quotient.cancel()
        shared = tuple([key for key in dict.fromkeys(removed) if self._ranges[key].min == 0])
        return Found(whole.kind, quotient, whole.bounds, shared)

    def _equate(self, whole: Found) -> list[Found]:
        """Returns the normal form of an equality."""
        above, left, below, right = whole.quotient
        if above == 0 or below == 0:
            return [] if above == below else self._vanish(right if above == 0 else left)
        found = self._cancel(whole)
        quotient = found.quotient if found.quotient.factors else found.quotient.invert()
        if not quotient.factors:
            return [] if quotient.coefficient == quotient.divisor else self._vanish_both(whole.quotient)
        solved = quotient if quotient.divisors else self._solve_product(quotient)
        return self._vanish_both(whole.quotient) if solved is None else [found._replace(quotient=solved)]

    def _solve_product(self, quotient: Product[int]) -> Product[int] | None:
        """Returns the equality of a product and a number; None if it is never true.

        If the product has only one variable, the equality is solved for this variable.
        """
        above, left, number, _ = quotient
        if above != 1 or not self._limit(left).holds(number):
            return None
        if len(set(left)) > 1:
            return quotient
        root = find_exact_root(number, len(left))
        return None if root is None else Product(1, left[:1], root)

    def _divide(self, whole: Found) -> list[Found]:
        """Returns the normal form of the fact that a quotient is an integer.

        See the lemmas quotient-is-divisibility and step-by-the-other-constant in `verification/lemmas.py`.
        """
        if whole.quotient.divisor == 0:
            return [] if whole.quotient.coefficient == 0 else self._vanish(whole.quotient.factors)
        if whole.quotient.coefficient == 0:
            return []
        found = self._cancel(whole)
        _, left, number, right = found.quotient
        if right:
            return self._divide_product(found) if left else self._divide_number(found)
        if self._is_declared(number, Counter(left)):
            return []
        if len(set(left)) == 1:
            return self._solve_multiple(found)
        return [found._replace(quotient=Product(1, left, number))] if left else self._vanish(found.shared)

    def _solve_multiple(self, found: Found) -> list[Found]:
        """Returns the condition that a number divides a power of one variable."""
        _, left, number, _ = found.quotient
        step = _find_step(number, len(left))
        if step is None:
            return [found._replace(quotient=Product(1, left, number))]
        if self._is_declared(step, Counter(left[:1])):
            return []
        low, high = self._ranges[left[0]]
        first, last = -(-low // step), high // step
        if first > last:
            return self._vanish(found.shared)
        kind, value = (EQUAL, first * step) if first == last else (DIVIDES, step)
        return [Found(kind, Product(1, left[:1], value), shared=found.shared)]

    def _divide_number(self, found: Found) -> list[Found]:
        """Returns the condition that a product divides a number."""
        number, _, below, right = found.quotient
        if below != 1:
            return self._vanish(found.shared)
        own = self._ranges[right[0]]
        divisors = list_divisors(number, _MAX_DIVISORS) if number.bit_length() <= _MAX_BITS else None
        if len(right) > 1 or divisors is None:
            return [found]
        values = [divisor for divisor in divisors if own.min <= divisor <= own.max]
        if not values:
            return self._vanish(found.shared)
        if len(values) == 1:
            return [Found(EQUAL, Product(1, right, values[0]), shared=found.shared)]
        return [] if len(values) == own.max - own.min + 1 else [found]

    def _divide_product(self, found: Found) -> list[Found]:
        """Returns the condition that a product divides another product with other variables."""
        above, _, below, right = found.quotient
        low, high = self._ranges[right[0]]
        # If every possible value of the variable divides the number, the condition always holds.
        is_short = len(right) == 1 and low > 0 and high - low < _MAX_DIVISORS
        return [] if is_short and not any(above % (below * value) for value in range(low, high + 1)) else [found]

    def _bound(self, whole: Found) -> list[Found]:
        """Returns the normal form of the fact that a quotient is within bounds. The divisor is at least 1."""
        if whole.quotient.coefficient == 0:
            return [] if whole.bounds.min == 0 else [_CONTRADICTION]
        found, (low, high) = self._cancel(whole), whole.bounds
        above, keys, below, right = found.quotient
        if right:
            return [found] if whole.bounds != ANY else []
        low = -(-low * below // above)
        high = None if high is None else high * below // above
        power = len(keys)
        if power > 1 and len(set(keys)) == 1:
            keys, low, high = keys[:1], find_root_above(low, power), None if high is None else find_root(high, power)
        least, greatest = declared = self._limit(keys)
        low, high = met = Interval(low, high).meet(declared)
        if met.is_empty:
            return [_CONTRADICTION]
        if met == declared:
            return []
        if low == high and len(keys) == 1:
            return [Found(EQUAL, Product(1, keys, low))]
        kept = Interval(0 if low == least else low, None if high == greatest else high)
        return [Found(RANGE, Product(1, keys), kept)]

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

        See the lemma product-of-zeros in `verification/lemmas.py`.
        """
        zeros = tuple(dict.fromkeys([key for key in keys if self._ranges[key].min == 0]))
        return [Found(EQUAL, Product(1, zeros, 0))] if zeros else [_CONTRADICTION]

    def _vanish_both(self, quotient: Product[int]) -> list[Found]:
        """Returns the conditions that both products are 0, for products that have no other value in common."""
        (left,), (right,) = self._vanish(quotient.factors), self._vanish(quotient.divisors)
        if _CONTRADICTION in (left, right):
            return [_CONTRADICTION]
        # If every variable that may be 0 in one product is also a factor of the other product, one condition is
        # sufficient.
        if set(left.quotient.factors) <= set(right.quotient.factors):
            return [left]
        return [right] if set(right.quotient.factors) <= set(left.quotient.factors) else [left, right]

    def _is_declared(self, number: int, keys: Counter[int]) -> bool:
        """Whether a number always divides a product, because the expressions in the query have integer values."""
        for step, own in self._steps if number > 1 else ():
            while own <= keys:
                keys = keys - own
                number //= gcd(number, step)
        return number == 1

    def _write_positive(self, key: int, index: int) -> Condition | None:
        """Returns the condition that a variable is at least 1; None if the variable has no name."""
        product, item = name_product(Product(1, (key,)), self._symbols), f"shape[{index}]"
        if product is None:
            return None
        if self._declared[key].max == 1:
            return Condition(EQUAL, product, Expression(1, ()), rule=3, item=item)
        return Condition(RANGE, product, min=1, rule=3, item=item)

    def _write(self, found: Found) -> Condition | None:
        """Returns the condition with the names of its dims; None if a dim has no name or a number is too large."""
        kind, (above, left, below, right), (low, high), shared, rule, item = found
        unless = name_product(Product(1, shared), self._symbols) if shared else None
        if shared and unless is None:
            return None
        if kind is RANGE:
            product = name_product(found.quotient, self._symbols)
            if product is None or max(low, high or 0) > MAX_DIM:
                return None
            return Condition(kind, product, None, low or None, high, unless, rule, item)
        first, second = (name_product(Product(*own), self._symbols) for own in ((above, left), (below, right)))
        if first is None or second is None:
            return None
        if kind is DIVIDES:
            first, second = second, first
        return Condition(kind, first, second, None, None, unless, rule, item)


def _has_any(quotient: Product[int], keys: set[int]) -> bool:
    return not (keys.isdisjoint(quotient.factors) and keys.isdisjoint(quotient.divisors))


def _find_step(number: int, power: int) -> int | None:
    """Returns the smallest s for which s**power is a multiple of `number`; None if finding s takes too long.

    See the lemma divides-a-square in `verification/lemmas.py`.
    """
    if power == 1:
        return number
    divisors = list_divisors(number, _MAX_DIVISORS) if number.bit_length() <= _MAX_BITS else None
    return None if divisors is None else min(step for step in divisors if step**power % number == 0)
