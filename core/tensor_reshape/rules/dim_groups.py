"""Groups neighbouring input dims with the neighbouring output dims that the reshape makes of them.

A reshape keeps the elements in row-major order. There is a boundary after the first m input dims and the first n output
dims if both have the same product. The elements before a boundary stay before it. For example, in a reshape of (2, 3,
4) to (6, 4), the dims (2, 3) become (6), and (4) becomes (4).

Invariants:

- The groups cover all input dims and all output dims in order. A group without dims occurs only for a scalar.
- Boundaries are found only with numbers and names, so an unknown dim is in the same group as its neighbours.
- In each accepted instance with elements, the input dims of a group have the same product as its output dims. Groups
  have no meaning for an empty tensor.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, Dim
from tensor_reshape.rules.products import Product


class DimGroup(NamedTuple):
    """Neighbouring input dims, and the output dims that the reshape makes of them.

    Attributes:
        data: the indices of the input dims. The range is empty if the input is a scalar.
        output: the indices of the output dims. The range is empty if the output is a scalar.

    >>> result = client.infer_shape(("b", "s", 768), (0, 0, 12, 64), special_zero=True, explain=True)
    >>> [(list(group.data), list(group.output)) for group in result.groups]
    [([0], [0]), ([1], [1]), ([2], [2, 3])]
    """

    data: range
    output: range


_Boundary: TypeAlias = tuple[int, int]
"""The number of data dims and of output dims before a boundary."""


def find_dim_groups(data: Sequence[AnyDim], output: Sequence[AnyDim], copied: Collection[int]) -> list[DimGroup]:
    """Returns the groups of dims, which are as small as possible.

    Args:
        data: the data dims.
        output: the output dims of an accepted query.
        copied: the indices of output dims that are copies of the data dim with the same index.
    """
    left = [_factor(dim, ("data", index)) for index, dim in enumerate(data)]
    right = [left[index] if index in copied else _factor(dim, ("output", index)) for index, dim in enumerate(output)]
    boundaries = _find_boundaries(left, right)
    # If an unknown dim comes after the last boundary that was found, products with this dim cannot be compared. The
    # remaining boundaries are therefore found with products that start at the ends of both shapes.
    before, after = boundaries[-1]
    backwards = _find_boundaries(left[before:][::-1], right[after:][::-1])
    boundaries += [(len(left) - below, len(right) - above) for below, above in reversed(backwards)]
    return [DimGroup(range(low[0], high[0]), range(low[1], high[1])) for low, high in pairwise(boundaries)]


def _factor(dim: AnyDim, token: Hashable) -> Product[Hashable]:
    # A dim of 0 is handled like an unknown dim. All products with a 0 are equal, so equal products do not show which
    # dims belong together.
    if isinstance(dim, int) and dim != 0:
        return Product(dim, ())
    if not isinstance(dim, Dim) or dim.expression is None:
        return Product(1, (token,))
    return dim.expression.map_factors(lambda symbol: symbol.name)


def _find_boundaries(left: Sequence[Product[Hashable]], right: Sequence[Product[Hashable]]) -> list[_Boundary]:
    """Returns all inner boundaries, and the boundary at the beginning of the shapes.

    The products of the dims before a boundary are equal.
    """
    # A dim of 1 does not change a product, so different numbers of dims may have the same product.
    known = defaultdict[Hashable, list[int]](list)
    for count, product in enumerate(_multiply(left)[:-1], 1):
        known[product].append(count)
    boundaries = [(0, 0)]
    for count, product in enumerate(_multiply(right)[:-1], 1):
        below = next((place for place in known.get(product, ()) if place > boundaries[-1][0]), None)
        if below is not None:
            boundaries.append((below, count))
    return boundaries


def _multiply(factors: Sequence[Product[Hashable]]) -> list[Hashable]:
    """Returns the products of the first factor, of the first two factors, and so on, in a form that can be compared."""
    above, below, powers = 1, 1, Counter[Hashable]()
    products = list[Hashable]()
    for coefficient, names, divisor, divisors in factors:
        common = gcd(above * coefficient, below * divisor)
        above, below = above * coefficient // common, below * divisor // common
        for name in names:
            powers[name] += 1
        for name in divisors:
            powers[name] -= 1
        products.append((above, below, frozenset(item for item in powers.items() if item[1])))
    return products
