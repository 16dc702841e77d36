"""Groups of neighbouring input dims and the neighbouring output dims that they become.

Row-major order stays. If a product of first dims is equal on both sides, no element crosses from before this place to
after it: (2, 3, 4) to (6, 4) is 2*3 to 6, and 4 to 4.

Invariants: groups cover all dims of both sides in order, and only the group of a scalar has no dims. Groups are
separated by numbers and names, so an unknown dim joins its neighbours. Groups describe how elements move, so they mean
nothing for an empty tensor.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, Dim


class DimGroup(NamedTuple):
    """Neighbouring input dims and the output dims that they become.

    Attributes:
        data: the indices in the data; empty if it is a scalar.
        output: the indices in the output; empty if it is a scalar.
    """

    data: range
    output: range


_Factor: TypeAlias = tuple[Fraction, dict[Hashable, int]]
"""A number, and the power of each name or unknown."""

_Boundary: TypeAlias = tuple[int, int]
"""The number of data dims and of output dims before a boundary."""


def find_dim_groups(data: Sequence[AnyDim], output: Sequence[AnyDim], copied: Collection[int]) -> list[DimGroup]:
    """Returns the smallest groups that can be separated.

    Args:
        data: the data dims.
        output: the output dims of an accepted query.
        copied: the indices of output dims that are copies of the data dim with the same index.
    """
    left = [_factor(dim, ("data", index)) for index, dim in enumerate(data)]
    right = [left[index] if index in copied else _factor(dim, ("output", index)) for index, dim in enumerate(output)]
    boundaries = _find_boundaries(left, right)
    # Something unknown, or the end, follows the last boundary. More boundaries are found from the end.
    before, after = boundaries[-1]
    backwards = _find_boundaries(left[before:][::-1], right[after:][::-1])
    boundaries += [(len(left) - below, len(right) - above) for below, above in reversed(backwards)]
    return [DimGroup(range(low[0], high[0]), range(low[1], high[1])) for low, high in pairwise(boundaries)]


def _factor(dim: AnyDim, token: Hashable) -> _Factor:
    # A 0 counts as unknown, because all products with it are equal and say nothing about the elements.
    if isinstance(dim, int) and dim != 0:
        return Fraction(dim), {}
    if not isinstance(dim, Dim) or dim.expression is None:
        return Fraction(1), {token: 1}
    coefficient, factors, divisor, divisors = dim.expression
    powers = Counter[Hashable](symbol.name for symbol in factors)
    powers.subtract(symbol.name for symbol in divisors)
    return Fraction(coefficient, divisor), powers


def _find_boundaries(left: Sequence[_Factor], right: Sequence[_Factor]) -> list[_Boundary]:
    """Returns the beginning, and all places inside where the products before them are equal."""
    known = defaultdict[Hashable, list[int]](list)  # a product has several places if it is followed by dims of 1
    for count, product in enumerate(_multiply(left)[:-1], 1):
        known[product].append(count)
    boundaries = [(0, 0)]
    for count, product in enumerate(_multiply(right)[:-1], 1):
        below = next((place for place in known.get(product, ()) if place > boundaries[-1][0]), None)
        if below is not None:
            boundaries.append((below, count))
    return boundaries


def _multiply(factors: Sequence[_Factor]) -> list[Hashable]:
    """Returns the product of the first factor, of the first two, and so on, in a form that can be compared."""
    number, powers = Fraction(1), Counter[Hashable]()
    products = list[Hashable]()
    for own, names in factors:
        number *= own
        powers.update(names)
        products.append((number, frozenset(item for item in powers.items() if item[1])))
    return products
