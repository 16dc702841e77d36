"""The instances of one small query, which numpy computes from the rules without the solver.

Each name of the query is an axis, and so is each unknown dim, under its position. An axis has small numbers, the ends
of its bounds, and `LARGE`, which stands for any large number because most products of small numbers divide it. So an
end of an answer that no instance reaches may still be right if the query has several open names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import prod
from typing import NamedTuple

import numpy as np

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds
from tensor_reshape.rules.questions import AnyQuestion, DimGroup, ShapeAnswer
from tests.oracles.small_domain import Bools, Ints, divide, evaluate, multiply, reshape

LARGE = 32400  # 2^4 * 3^4 * 5^2
_OPEN = 100  # an output dim that can be above it can be any large number, unless an answer has an upper end
_SMALL = (0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 7, 15, 16, 18, 20, 24, 25, 27, 30, 32, 36, 48)
_LARGE = (180, 2700, 5400, 8100, 10800, 16200, LARGE, 2 * LARGE)

FEW_AXES = 4
"""If there are fewer axes, instances usually reach each end of an answer."""


class Grid(NamedTuple):
    """All instances in which the data has one rank."""

    values: dict[str, Ints]  # the numbers of each name, and of each unknown dim
    wanted: frozenset[str]  # the names that only the expected shape has
    is_valid: Bools  # whether the values of all expressions are integers within their bounds
    is_accepted: Bools
    data: list[Ints]
    output: list[Ints]

    def find_fault(self, answer: ShapeAnswer) -> str:
        """Returns what is wrong with an answer; empty if nothing is wrong."""
        known = [one for one in answer.conditions if one.symbols <= self.values.keys()]
        symbols = [symbol for condition in known for symbol in condition.list_symbols()]
        facts = {
            **{f"dim {index}, {dim}": self._find_equal(dim, index) for index, dim in enumerate(answer.dims or ())},
            **{f"the bounds of {one}": _is_within(self.values[one.name], one.bounds) for one in symbols},
            **{f"the condition {condition}": evaluate(condition, self.values) for condition in known},
            **{f"{group}": self._find_balanced(group) for group in answer.groups},
        }
        excluding = [f"{name} excludes an accepted instance" for name, holds in facts.items() if self._excludes(holds)]
        if excluding:
            return excluding[0]
        # A name that only the expected shape has, and no condition, may have any value that fits.
        free = self.wanted.difference(*(one.symbols for one in known))
        axes = tuple(axis for axis, name in enumerate(self.values) if name in free)
        is_complete = answer.conditions_complete and len(known) == len(answer.conditions)
        left = self._list_holding(known) & self.is_valid & ~self.is_accepted.any(axes, keepdims=True)
        return f"{list(map(str, known))} are not complete" if is_complete and left.any() else ""

    def _excludes(self, holds: Bools) -> bool:
        return bool((self.is_accepted & ~holds).any())

    def _find_equal(self, dim: AnyDim, index: int) -> Bools:
        """Returns for which instances a dim is equal to that of the output."""
        is_within = _is_within(self.output[index], find_bounds(dim))
        if not isinstance(dim, Dim) or dim.expression is None:
            return is_within
        above, below = divide(dim.expression, self.values)
        is_equal: Bools = above == below * self.output[index]
        return is_within & is_equal

    def _find_balanced(self, group: DimGroup) -> Bools:
        """Returns for which instances the dims of a group have the same product on both sides."""
        inside, outside = (
            [dims[at] for at in own] for dims, own in ((self.data, group.data), (self.output, group.output))
        )
        is_empty: Bools = multiply(self.data) == 0
        is_equal: Bools = multiply(inside) == multiply(outside)
        return is_empty | is_equal

    def find_needless(self, conditions: Sequence[Condition]) -> Iterator[Condition]:
        """Yields the conditions that follow from the others, and the ranges that follow from the declared bounds."""
        for index, condition in enumerate(conditions):
            is_range = condition.kind is ConditionKind.RANGE
            others = self._list_holding([] if is_range else [*conditions[:index], *conditions[index + 1 :]])
            if not (others & self.is_valid & ~evaluate(condition, self.values)).any():
                yield condition

    def _list_holding(self, conditions: Iterable[Condition]) -> Bools:
        holds: Bools = np.array(True)
        for condition in conditions:
            holds = holds & evaluate(condition, self.values)
        return holds


def build_grids(question: AnyQuestion) -> list[Grid]:
    """Returns the instances of a query whose requested or expected shape has a known rank."""
    items = question.target if question.target is not None else [None] * len(question.expected or ())
    shapes = [question.data] if question.data is not None else [[None] * rank for rank in range(len(items) + 2)]
    return [_build(question, data, items) for data in shapes]


def count_axes(question: AnyQuestion) -> int:
    """Returns the number of axes."""
    items = question.target if question.target is not None else [None] * len(question.expected or ())
    data = question.data if question.data is not None else [None] * (len(items) + 1)
    return len(_list_axes(data, items, question.expected or ()))


def find_loose(grids: Sequence[Grid], dims: Sequence[AnyDim]) -> str:
    """Returns an end of an answer that no instance reaches; empty if there is none."""
    for index, dim in enumerate(dims):
        columns = [np.broadcast_to(grid.output[index], grid.is_accepted.shape)[grid.is_accepted] for grid in grids]
        found = np.concatenate(columns)
        if not found.size:
            return "no instance is accepted"
        own, low, high = find_bounds(dim), int(found.min()), int(found.max())
        if own.min != low or (high <= _OPEN if own.max is None else own.max != high):
            return f"dim {index} is {own}; the instances have {low} to {high}"
    return ""


def _list_axes(data: Sequence[AnyDim], items: Sequence[AnyDim], expected: Sequence[AnyDim]) -> dict[str, Interval]:
    axes = dict[str, Interval]()
    for symbol, bounds in chain.from_iterable(map(_list_bounds, (*data, *items, *expected))):
        axes[symbol] = axes.get(symbol, bounds).meet(bounds)
    for field, dims in (("data", data), ("shape", items)):
        for index, dim in enumerate(dims):
            if dim is None or (isinstance(dim, Dim) and dim.expression is None):
                unknown = Interval(-1, None) if field == "shape" else Interval(0, None)
                axes[f"{field}[{index}]"] = unknown if dim is None else dim.bounds
    return axes


def _list_bounds(dim: AnyDim) -> Iterator[tuple[str, Interval]]:
    """Yields the bounds that a dim gives to each of its names."""
    if isinstance(dim, Dim) and dim.expression is not None:
        for symbol in dim.expression.symbols:
            yield symbol.name, symbol.bounds
        for symbol in dim.expression.divisors:
            yield symbol.name, Interval(1, None)
        if dim.expression.symbol is not None:
            yield dim.expression.symbol.name, dim.bounds


def _list_values(bounds: Interval, numbers: Iterable[int]) -> list[int]:
    ends = bounds.min, bounds.min + 1, bounds.min if bounds.max is None else bounds.max
    return [number for number in sorted({-1, *numbers, *ends}) if bounds.holds(number)]


def _list_numbers(axes: int, data: Sequence[AnyDim], *others: Sequence[AnyDim]) -> Iterator[int]:
    """Yields small numbers, divisors of volumes of the data, and numbers that can balance others."""
    has_products = any(isinstance(dim, Dim) and dim.is_product for dims in (data, *others) for dim in dims)
    if axes >= FEW_AXES or has_products:
        yield from _SMALL[:9] if axes >= FEW_AXES else _SMALL
        yield from () if has_products else (LARGE,)  # the powers of products would exceed 64 bits
        return
    yield from (*_SMALL, *_LARGE)
    ends = [find_bounds(dim) for dim in data]
    yield from _list_divisors(prod(own.min for own in ends))
    yield from _list_divisors(prod(max(own.min, 1) if own.max is None else own.max for own in ends))
    for dims in (data, *others):
        known = prod(dim for dim in dims if isinstance(dim, int) and dim > 0)
        yield from (known, LARGE // known)


@lru_cache
def _list_divisors(number: int) -> list[int]:
    return [low for low in range(1, number + 1) if number % low == 0]


def _build(question: AnyQuestion, data: Sequence[AnyDim], items: Sequence[AnyDim]) -> Grid:
    expected = question.expected or ()
    axes = _list_axes(data, items, expected)
    numbers = set(_list_numbers(len(axes), data, items, expected))
    lists = [_list_values(bounds, numbers) for bounds in axes.values()]
    values = dict(zip(axes, np.meshgrid(*lists, indexing="ij", sparse=True), strict=True)) if axes else {}
    shape = tuple(map(len, lists))
    (dims, first), (lengths, second) = _measure(data, "data", values), _measure(items, "shape", values)
    is_length = [isinstance(item, Dim) for item in items]
    zero, cancel = bool(question.special_zero), question.operation.copies_cancel
    is_accepted, output = reshape(dims, lengths, is_length, special_zero=zero, copies_cancel=cancel)
    is_valid = np.broadcast_to(first & second, shape)
    is_accepted = is_accepted & is_valid
    if question.expected is not None and len(expected) != len(output):
        is_accepted = is_accepted & False
    for column, want in zip(output, expected, strict=False):
        if isinstance(want, Dim) and want.expression is not None:
            above, below = divide(want.expression, values)
            is_accepted = is_accepted & (below > 0) & (above == below * column)
        is_accepted = is_accepted & _is_within(column, find_bounds(want))
    wanted = frozenset(axes.keys() - _list_axes(data, items, ()).keys())
    return Grid(values, wanted, is_valid, np.broadcast_to(is_accepted, shape), dims, output)


def _measure(dims: Sequence[AnyDim], field: str, values: Mapping[str, Ints]) -> tuple[list[Ints], Bools]:
    """Returns the values of dims, and whether all of them are integers within their bounds."""
    columns, is_valid = list[Ints](), np.array(True)
    for index, dim in enumerate(dims):
        if isinstance(dim, int):
            columns.append(np.array(dim))
        elif dim is None or dim.expression is None:
            columns.append(values[f"{field}[{index}]"])
        else:
            above, below = divide(dim.expression, values)
            quotient, rest = np.divmod(above, np.maximum(below, 1))
            columns.append(quotient)
            is_valid = is_valid & (below > 0) & (rest == 0) & _is_within(quotient, dim.bounds)
    return columns, is_valid


def _is_within(column: Ints, bounds: Interval) -> Bools:
    is_low = column < bounds.min
    return ~is_low if bounds.max is None else ~is_low & (column <= bounds.max)
