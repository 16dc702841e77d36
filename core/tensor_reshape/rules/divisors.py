"""The divisors of a volume next to a number, as suggestions for a -1.

Invariants: a returned number divides the volume, and the quotient is a valid dim. The cost is limited to some tenths of
a millisecond for any input. Large factors may therefore stay undivided, or there may be too many divisors to examine.
In that case the result does not claim to have the nearest ones.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from math import gcd, prod
from typing import NamedTuple

from tensor_reshape.rules.limits import MAX_DIM

_CANDIDATES = (2, *range(3, 1000, 2))
"""Candidates for prime factors, including all primes below 1,000. Shapes of tensors rarely have larger ones."""

_HALF = 64
"""Limit of products of each half of the factors. Shapes of tensors rarely have more than 1,000 divisors."""


class NearDivisors(NamedTuple):
    """Some divisors of a volume.

    Attributes:
        values: the largest divisor below a number and the smallest above it, as far as they exist, in ascending order.
        are_nearest: whether there are certainly none nearer.
    """

    values: list[int]
    are_nearest: bool


def find_near_divisors(volume: int, near: int, dims: Iterable[int]) -> NearDivisors:
    """Returns the divisors of a volume next to a number.

    Args:
        volume: at least 1.
        near: the number, which does not divide the volume.
        dims: the dims of the volume, which help to find its large factors.
    """
    factors, are_primes = _find_factors(volume, dims)
    low, high, are_all = _multiply(factors)
    least = -(-volume // MAX_DIM)  # a smaller divisor would leave a quotient that is not a valid dim
    start = max(near, least - 1)
    above, below = volume, 0  # the volume itself is always a divisor
    for divisor in low:
        # Each divisor is a product of one element of `low` and one of `high`. For each element of `low`, two products
        # are next to `near`.
        at = bisect_right(high, start // divisor)
        above = min(above, divisor * high[at]) if at < len(high) else above
        at = bisect_right(high, near // divisor)
        below = max(below, divisor * high[at - 1]) if at else below
    values = {above} if below < least else {below, above}
    return NearDivisors(sorted(values), are_primes and are_all)


def list_divisors(number: int, most: int) -> list[int] | None:
    """Returns all divisors of a number, unordered; None if there are more than `most`, or a factor may not be prime.

    Args:
        number: at least 1.
        most: limit of the number of divisors.
    """
    factors, are_primes = _find_factors(number, ())
    if not are_primes or prod(power + 1 for power in factors.values()) > most:
        return None
    divisors = [1]
    for prime, power in factors.items():
        divisors = [divisor * prime**exponent for divisor in divisors for exponent in range(power + 1)]
    return divisors


def _find_factors(volume: int, dims: Iterable[int]) -> tuple[Counter[int], bool]:
    """Returns factors with the volume as their product, and whether all are certainly prime."""
    factors = Counter[int]()
    rest = volume
    for prime in _CANDIDATES:
        if prime * prime > rest:
            break
        while rest % prime == 0:
            rest //= prime
            factors[prime] += 1
    for dim in dims:
        part = gcd(rest, dim)
        rest //= part
        factors[part] += part > 1
    factors[rest] += rest > 1
    # A number without divisors below 1,000 is prime if it is less than the square of that.
    return +factors, all(factor < _CANDIDATES[-1] ** 2 for factor in +factors)


def _multiply(factors: Counter[int]) -> tuple[list[int], list[int], bool]:
    """Returns two ascending lists whose pairwise products are divisors, and whether these are all."""
    low, high = [1], [1]
    are_all = True
    for factor, count in factors.items():
        left = count
        for half in sorted((low, high), key=len):
            taken = min(left, _HALF // len(half) - 1)
            half[:] = [product * factor**power for product in half for power in range(taken + 1)]
            left -= taken
        are_all = are_all and not left
    return sorted(low), sorted(high), are_all
