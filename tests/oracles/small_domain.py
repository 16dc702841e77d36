"""Tables of all instances of small queries, which numpy computes from the rules without the solver.

The queries have up to three dims and three items. A dim is 0, 1, 2, 3 or unknown, and an item is -1, 0, 1, 2, 3 or
unknown. In the instances, an unknown dim takes each of `DIMS`, and an unknown item takes -1, too. These numbers
suffice. They contain each product of known dims, and `LARGE`, which stands for any large number because each product
of known items divides it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import Expression, find_bounds
from tensor_reshape.rules.questions import ShapeAnswer

LARGE = 1296  # 2^4 * 3^4
DIMS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 18, 27, LARGE)
ITEMS = (-1, *DIMS)
KNOWN_DIMS, KNOWN_ITEMS = 4, 5
"""The number of the first `DIMS` and `ITEMS` that a query may contain. The next place stands for an unknown one."""

_LARGEST = 27  # the largest product of known dims: an output dim above it can be any large number
_NO_MIN, _NO_MAX = np.iinfo(np.int64).max, -1

Bools: TypeAlias = NDArray[np.bool_]
Ints: TypeAlias = NDArray[np.int64]
Array = TypeVar("Array", Ints, Bools)
Place: TypeAlias = tuple[int, ...]
"""The index of each dim and item of a query."""


class Table(NamedTuple):
    """What the rules say about all queries that have the same number of dims and of items.

    There is one axis for each dim and one for each item. The last index of an axis means that the dim or item is
    unknown. But `some` and `every` have an index for each of `DIMS` instead.
    """

    rank: int
    lows: Ints  # the smallest value of each output dim, on one more axis
    highs: Ints  # the largest value of each output dim
    some: Bools  # whether the rules accept an instance
    every: Bools  # whether the rules accept every instance

    def find_fault(self, place: Place, answer: ShapeAnswer | None) -> str:
        """Returns what is wrong with an answer, or with a rejection. The text is empty if nothing is wrong."""
        unknown = [axis for axis, index in enumerate(place[: self.rank]) if index == KNOWN_DIMS]
        at = tuple(slice(None) if axis in unknown else index for axis, index in enumerate(place))
        some, every = self.some[at], self.every[at]
        if answer is None or not some.any():
            return "rejected" if some.any() else "accepted" if answer else ""
        ends = [(int(low), int(high)) for low, high in zip(self.lows[place], self.highs[place], strict=True)]
        tight = [(low, high if high <= _LARGEST else None) for low, high in ends]
        bounds = [tuple(find_bounds(dim)) for dim in answer.dims or ()]
        if bounds != tight:
            return f"{bounds} instead of {tight}"
        axes = np.meshgrid(*[DIMS] * len(unknown), indexing="ij", sparse=True)
        values = {f"data[{axis}]": column for axis, column in zip(unknown, axes, strict=True)}
        holds: Bools = np.array(True)
        for condition in answer.conditions:
            holds = holds & evaluate(condition, values)
        if (some & ~holds).any():
            return f"{answer.conditions} excludes an instance that is accepted"
        if answer.conditions_complete and (holds & ~every).any():
            return f"{answer.conditions} is not complete"
        return ""


def build_table(rank: int, count: int, *, special_zero: bool, copies_cancel: bool) -> Table:
    """Returns the table of the queries with `rank` dims and `count` items."""
    # One part for each value of the first dim limits the memory.
    parts = [
        _build_part([first, *[DIMS] * (rank - 1)] if rank else [], count, special_zero, copies_cancel)
        for first in ([[dim] for dim in DIMS] if rank else [()])
    ]
    lows, highs, some, every = (np.concatenate(arrays) if rank else arrays[0] for arrays in zip(*parts, strict=True))
    if rank:
        lows, highs = _add_unknown(lows, 0, KNOWN_DIMS, np.min), _add_unknown(highs, 0, KNOWN_DIMS, np.max)
    return Table(rank, lows, highs, some, every)


def list_places(rank: int, count: int) -> list[Place]:
    """Returns the place of each query in a table."""
    return list(product(*[range(KNOWN_DIMS + 1)] * rank, *[range(KNOWN_ITEMS + 1)] * count))


def _build_part(
    axes: Sequence[Sequence[int]], count: int, special_zero: bool, copies_cancel: bool
) -> tuple[Ints, Ints, Bools, Bools]:
    """Returns the parts of a table. The first dim takes only the values of the first axis, and is never unknown."""
    rank, shape = len(axes), (*map(len, axes), *[len(ITEMS)] * count)
    grid = np.meshgrid(*axes, *[ITEMS] * count, indexing="ij", sparse=True)
    is_length = [False] * count
    is_accepted, dims = reshape(
        grid[:rank], grid[rank:], is_length, special_zero=special_zero, copies_cancel=copies_cancel
    )
    some = every = np.broadcast_to(is_accepted, shape)
    columns = [np.broadcast_to(dim, shape) for dim in dims]
    lows, highs = (
        np.stack([np.where(some, column, rejected) for column in columns], -1) if count else np.empty((*shape, 0), int)
        for rejected in (_NO_MIN, _NO_MAX)
    )
    for axis in range(rank, rank + count):
        some, every = _add_unknown(some, axis, KNOWN_ITEMS, np.any), _add_unknown(every, axis, KNOWN_ITEMS, np.all)
    for axis in range(min(rank, 1), rank + count):
        known = KNOWN_DIMS if axis < rank else KNOWN_ITEMS
        lows, highs = _add_unknown(lows, axis, known, np.min), _add_unknown(highs, axis, known, np.max)
    return lows, highs, some, every


def reshape(
    data: Sequence[Ints], items: Sequence[Ints], is_length: Sequence[bool], *, special_zero: bool, copies_cancel: bool
) -> tuple[Bools, list[Ints]]:
    """Applies rules 2 to 4 to each instance. The output of a rejected instance has no meaning.

    Args:
        data: the data dims.
        items: the items.
        is_length: for each item, whether it is a dim even if its value is 0.
        special_zero: whether another item that is 0 copies.
        copies_cancel: whether copies are removed from both volumes before a -1 is computed.
    """
    is_copied = [(item == 0) & (special_zero and not own) for item, own in zip(items, is_length, strict=True)]
    is_inferred = [item == -1 for item in items]
    is_accepted = sum(is_inferred, np.array(0)) <= 1
    output, above, below = list[Ints](), multiply(data[len(items) :]), np.array(1)
    for index, (item, copied, inferred) in enumerate(zip(items, is_copied, is_inferred, strict=True)):
        is_left_out = copied & copies_cancel
        if index < len(data):
            output.append(np.where(copied, data[index], item))
            above = above * np.where(is_left_out, 1, data[index])
        else:
            output.append(item)
            is_accepted = is_accepted & ~copied
        below = below * np.where(is_left_out | inferred, 1, output[index])
    quotient, rest = np.divmod(above, np.maximum(below, 1))
    is_divisible = (below > 0) & (rest == 0)
    for index, inferred in enumerate(is_inferred):
        is_accepted = is_accepted & (~inferred | is_divisible)
        output[index] = np.where(inferred, quotient, output[index])
    return is_accepted & (multiply(output) == multiply(data)), output


def multiply(factors: Sequence[Ints]) -> Ints:
    return reduce(np.multiply, factors, np.array(1))


def _add_unknown(array: Array, axis: int, known: int, combine: Callable[..., Array]) -> Array:
    """Returns the first indices of an axis, and one more that combines all its indices."""
    return np.concatenate([array.take(range(known), axis), combine(array, axis, keepdims=True)], axis)


def evaluate(condition: Condition, values: Mapping[str, Ints]) -> Bools:
    """Returns for which values a condition holds."""
    one = Expression(1, ())
    (left, below), (right, _) = divide(condition.left, values), divide(condition.right or one, values)
    if condition.kind is ConditionKind.RANGE:
        holds = left >= (condition.min or 0) * below
        if condition.max is not None:
            holds = holds & (left <= condition.max * below)
    elif condition.kind is ConditionKind.EQUAL:
        holds = left == right
    else:
        holds = np.where(left == 0, right == 0, right % np.maximum(left, 1) == 0)
    return holds if condition.unless_zero is None else holds | (divide(condition.unless_zero, values)[0] == 0)


def divide(product: Expression, values: Mapping[str, Ints]) -> tuple[Ints, Ints]:
    """Returns the numerators and the denominators of a product."""
    above, below = ([values[symbol.name] for symbol in symbols] for symbols in (product.factors, product.divisors))
    return product.coefficient * multiply(above), product.divisor * multiply(below)
