"""Solves the conditions of several nodes together.

The solver derives values, ranges and divisors of single names from the conditions. A condition takes part in a
derivation as soon as at most one side of it has names without a value. The solver does not combine two relations of
several unknown names, such as `a*b = 6` and `a*b = 8`.

Invariants:

- If the solver finds a contradiction, no values of the names satisfy all conditions.
- If the solver finds a value of a name, the name has this value in all solutions.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import combinations
from math import comb, gcd, lcm
from typing import NamedTuple

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import ANY, Expression, Interval
from tensor_reshape.rules.products import find_exact_root

_MAX_SETS = 20_000
"""The largest number of node sets that the search for a smallest set tries."""

_MAX_CORE = 256
"""The largest number of demands from which unnecessary ones are removed, because each removal solves the others."""


class Demand(NamedTuple):
    """A condition, and the index of the node that demands it."""

    condition: Condition
    node: int


class Solution(NamedTuple):
    """The result for a list of demands.

    Attributes:
        values: the names that have only one possible value, each with the value and the demand that determined it.
        contradicting: demands that contradict each other. The tuple is empty if the solver finds no contradiction.
    """

    values: Mapping[str, tuple[int, Demand]]
    contradicting: tuple[Demand, ...] = ()


def solve(demands: Sequence[Demand], positive: AbstractSet[str] = frozenset()) -> Solution:
    """Returns the values that follow from all demands, or demands that contradict each other.

    Args:
        demands: the demands.
        positive: the names that are at least 1.
    """
    return _Solver(demands, positive).run()


def find_contradiction(demands: Sequence[Demand], positive: AbstractSet[str] = frozenset()) -> tuple[Demand, ...]:
    """Returns a smallest set of demands without a solution. The result is empty if the solver finds no contradiction.

    The demands come from as few nodes as possible. If there are more than `_MAX_SETS` sets to try, the result may come
    from more nodes. Each demand in the result is necessary, unless the solver has found more than `_MAX_CORE` demands.

    Args:
        demands: the demands.
        positive: the names that are at least 1.
    """
    core = _shrink(solve(demands, positive).contradicting, positive)
    by_node: dict[int, list[Demand]] = {}
    for demand in demands:
        by_node.setdefault(demand.node, []).append(demand)
    left = _MAX_SETS
    for size in range(1, len({demand.node for demand in core})):
        left -= comb(len(by_node), size)
        if left < 0:
            break
        for nodes in combinations(by_node.values(), size):
            found = solve([demand for group in nodes for demand in group], positive).contradicting
            if found:
                return _shrink(found, positive)
    return core


def _shrink(demands: tuple[Demand, ...], positive: AbstractSet[str]) -> tuple[Demand, ...]:
    """Returns only the demands that the contradiction needs."""
    if len(demands) > _MAX_CORE:
        return demands
    kept = list(demands)
    for demand in demands:
        others = [other for other in kept if other is not demand]
        if solve(others, positive).contradicting:
            kept = others
    return tuple(kept)


class _Contradiction(Exception):  # noqa: N818 - the solver catches it
    """The demands have no solution."""


class _Solver:
    """Narrows the ranges of the names by one demand after another, until nothing changes."""

    def __init__(self, demands: Sequence[Demand], positive: AbstractSet[str]) -> None:
        self._demands = demands
        self._ranges: dict[str, Interval] = {}
        self._steps: dict[str, int] = {}
        self._causes: dict[str, list[int]] = {}  # the demands that narrowed a name
        self._users: dict[str, list[int]] = {}  # the demands that contain a name
        for place, (condition, _) in enumerate(demands):
            for symbol in condition.list_symbols():
                bounds = symbol.bounds.meet(Interval(1, None)) if symbol.name in positive else symbol.bounds
                self._ranges[symbol.name] = self._ranges.get(symbol.name, ANY).meet(bounds)
                self._users.setdefault(symbol.name, []).append(place)
        self._pending = deque(range(len(demands)))
        self._place = 0

    def run(self) -> Solution:
        """Applies the demands until nothing changes, and returns the result."""
        try:
            while self._pending:
                self._place = self._pending.popleft()
                self._apply(self._demands[self._place].condition)
        except _Contradiction:
            return Solution({}, tuple(self._demands[place] for place in self._list_causes()))
        return Solution(
            {
                name: (low, self._demands[self._causes[name][-1]])
                for name, (low, high) in self._ranges.items()
                if low == high and name in self._causes
            }
        )

    def _list_causes(self) -> list[int]:
        """Returns the demands from which the contradiction was derived."""
        found, open_places = {self._place}, [self._place]
        while open_places:
            condition = self._demands[open_places.pop()].condition
            for cause in (cause for name in condition.symbols for cause in self._causes.get(name, ())):
                if cause not in found:
                    found.add(cause)
                    open_places.append(cause)
        return sorted(found)

    def _apply(self, condition: Condition) -> None:
        """Derives ranges of names from one condition."""
        if condition.unless_zero is not None:
            number, names = self._reduce(condition.unless_zero)
            if number == 0 or any(self._ranges[name].min == 0 for name in names):
                return  # the tensor may be empty, and the condition does not apply to empty tensors
        if condition.right is None:
            self._apply_range(condition)
        elif condition.kind is ConditionKind.EQUAL:
            self._equate(self._reduce(condition.left), self._reduce(condition.right))
        else:
            self._divide(self._reduce(condition.left), self._reduce(condition.right))

    def _reduce(self, product: Expression) -> tuple[int, Counter[str]]:
        """Returns the number and the names of a product, with known values in the number."""
        number, names = product.coefficient, Counter[str]()
        for symbol in product.factors:
            low, high = self._ranges[symbol.name]
            if low == high:
                number *= low
            else:
                names[symbol.name] += 1
        return (0, Counter()) if number == 0 else (number, names)

    def _apply_range(self, condition: Condition) -> None:
        if condition.left.symbol is not None:
            self._narrow(condition.left.symbol.name, Interval(condition.min or 0, condition.max))
            return
        ranges = {name: self._ranges[name] for name in condition.symbols}
        if all(low == high for low, high in ranges.values()):
            _require(condition.holds({name: low for name, (low, _) in ranges.items()}))

    def _equate(self, one: tuple[int, Counter[str]], other: tuple[int, Counter[str]]) -> None:
        (number, names), (value, rest) = (one, other) if one[1] else (other, one)
        if rest:
            return  # both sides have names without a value
        if not names:
            _require(number == value)
        elif value == 0:
            zeros = [name for name in names if self._ranges[name].min == 0]
            _require(bool(zeros))
            if len(zeros) == 1:
                self._narrow(zeros[0], Interval(0, 0))
        else:
            _require(value % number == 0)
            self._solve_product(names, value // number)

    def _solve_product(self, names: Counter[str], value: int) -> None:
        """Narrows the names of a product that has a value above 0."""
        for name, power in names.items():
            if len(names) > 1:
                self._narrow(name, Interval(1, value))
                continue
            root = find_exact_root(value, power)
            _require(root is not None)
            self._narrow(name, Interval(root or 0, root))

    def _divide(self, one: tuple[int, Counter[str]], other: tuple[int, Counter[str]]) -> None:
        (number, names), (value, rest) = one, other
        if number == 0:
            self._equate(other, (0, Counter()))
        elif not rest:
            if value:
                _require(value % number == 0)
                for name in names:
                    self._narrow(name, Interval(1, value // number))
        elif not names and rest.total() == 1:
            (name,) = rest
            step = number // gcd(number, value)
            self._steps[name] = lcm(step, self._steps.get(name, 1))
            self._narrow(name, ANY, is_step=step > 1)

    def _narrow(self, name: str, bounds: Interval, *, is_step: bool = False) -> None:
        old, step = self._ranges[name], self._steps.get(name, 1)
        low, high = old.meet(bounds)
        new = Interval(-(-low // step) * step, None if high is None else high // step * step)
        if new != old or is_step:
            causes = self._causes.setdefault(name, [])
            if self._place not in causes:
                causes.append(self._place)
        if new != old:
            self._ranges[name] = new
            _require(not new.is_empty)
            self._pending.extend(place for place in self._users[name] if place != self._place)


def _require(is_true: bool) -> None:  # noqa: FBT001 - like an assertion
    if not is_true:
        raise _Contradiction
