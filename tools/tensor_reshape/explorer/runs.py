"""Which neighbouring dims of the data become which neighbouring dims of the output.

Row-major order stays, so wherever a product of first dims is the same on both sides, the elements are regrouped before
and behind that place, and nothing crosses it: (2, 3, 4) to (6, 4) is 2*3 to 6, and 4 to 4.

Laws: runs cover every dim of both sides, in order; only the run of a scalar has no dims. They are told apart by what is
known for sure, numbers and names: what is not known joins its neighbours. They tell where elements go, and nothing of a
tensor that has none.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, Dim


class Run(NamedTuple):
    """Some neighbouring dims of the data, and those of the output that they become.

    Attributes:
        data: the indices in the data; empty where that is a scalar.
        output: the indices in the output; empty where that is a scalar.
    """

    data: range
    output: range


_Factor: TypeAlias = tuple[Fraction, dict[Hashable, int]]
"""A number, and the powers of what is no number."""

_Place: TypeAlias = tuple[int, int]
"""A place between dims: how many of the data, and how many of the output, are before it."""


def find_runs(data: Sequence[AnyDim], output: Sequence[AnyDim], copied: Collection[int]) -> list[Run]:
    """Returns the shortest runs that can be told apart.

    Args:
        data: its dims.
        output: the dims of an accepted answer.
        copied: the indices of those that are the data dim of the same index.
    """
    left = [_factor(dim, ("data", index)) for index, dim in enumerate(data)]
    right = [left[index] if index in copied else _factor(dim, ("output", index)) for index, dim in enumerate(output)]
    places = _find_places(left, right)
    # Behind the last place is something that is not known, or the end. What follows it is found from the end.
    before, after = places[-1]
    back = _find_places(left[before:][::-1], right[after:][::-1])
    places += [(len(left) - below, len(right) - above) for below, above in reversed(back)]
    return [Run(range(low[0], high[0]), range(low[1], high[1])) for low, high in pairwise(places)]


def _factor(dim: AnyDim, token: Hashable) -> _Factor:
    # A 0 is as good as unknown: all products with it are equal, and none tells where elements go.
    if isinstance(dim, int) and dim != 0:
        return Fraction(dim), {}
    if not isinstance(dim, Dim) or dim.expression is None:
        return Fraction(1), {token: 1}
    coefficient, factors, divisor, divisors = dim.expression
    powers = Counter[Hashable](symbol.name for symbol in factors)
    powers.subtract(symbol.name for symbol in divisors)
    return Fraction(coefficient, divisor), powers


def _find_places(left: Sequence[_Factor], right: Sequence[_Factor]) -> list[_Place]:
    """Returns the places where the products of what is before them are equal: the beginning, and others inside."""
    known = defaultdict[Hashable, list[int]](list)  # dims of 1 leave a product as it is, so it may have many places
    for count, product in enumerate(_multiply(left)[:-1], 1):
        known[product].append(count)
    places = [(0, 0)]
    for count, product in enumerate(_multiply(right)[:-1], 1):
        below = next((place for place in known.get(product, ()) if place > places[-1][0]), None)
        if below is not None:
            places.append((below, count))
    return places


def _multiply(factors: Sequence[_Factor]) -> list[Hashable]:
    """Returns the product of the first one, of the first two, and so on, in a form that can be compared."""
    number, powers = Fraction(1), Counter[Hashable]()
    products = list[Hashable]()
    for own, names in factors:
        number *= own
        powers.update(names)
        products.append((number, frozenset(item for item in powers.items() if item[1])))
    return products
