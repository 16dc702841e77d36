"""Finds divisors of a volume that are close to a given number.

If the volume is not divisible by the product of the other items, the error for the -1 suggests such divisors.

Invariants: each returned number divides the volume, and the quotient of the volume and this number is a valid dim. For
any input, a call takes at most some tenths of a millisecond. To stay within that time, the search may leave large
factors undivided, or examine only some of the divisors. If the search has skipped divisors, the result does not claim
to contain the nearest divisors.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from math import gcd, prod
from typing import NamedTuple

from tensor_reshape.rules.limits import MAX_DIM

_CANDIDATES = (2, *range(3, 1000, 2))
"""The candidates for prime factors, which include all primes below 1,000. Dims of tensors rarely have larger prime
factors.
"""

_HALF = 64
"""The factors of a volume are divided into two halves. `_HALF` is the largest number of products that the factors of
one half may have. The volumes of tensors rarely have more than 1,000 divisors.
"""


class NearDivisors(NamedTuple):
    """Some divisors of a volume, which are close to a given number.

    Attributes:
        values: the largest divisor below the given number and the smallest divisor above it, in ascending order. A
            divisor that does not exist is left out.
        are_nearest: whether the volume certainly has no divisors that are closer to the number.
    """

    values: list[int]
    are_nearest: bool


def find_near_divisors(volume: int, near: int, dims: Iterable[int]) -> NearDivisors:
    """Returns divisors of a volume that are close to a number.

    Args:
        volume: the volume, at least 1.
        near: the number, which does not divide the volume.
        dims: the dims whose product is the volume, which help to find its large factors.
    """
    factors, are_primes = _find_factors(volume, dims)
    low, high, are_all = _multiply(factors)
    least = -(-volume // MAX_DIM)  # if a divisor is below `least`, the volume divided by it exceeds MAX_DIM
    start = max(near, least - 1)
    above, below = volume, 0  # the search starts with the volume, because the volume is a divisor of itself
    for divisor in low:
        # Each divisor of the volume is the product of an element of `low` and an element of `high`. For each element of
        # `low`, the loop finds the largest of these products below `near` and the smallest above `near`.
        at = bisect_right(high, start // divisor)
        above = min(above, divisor * high[at]) if at < len(high) else above
        at = bisect_right(high, near // divisor)
        below = max(below, divisor * high[at - 1]) if at else below
    values = {above} if below < least else {below, above}
    return NearDivisors(sorted(values), are_primes and are_all)


def list_divisors(number: int, most: int) -> list[int] | None:
    """Returns all divisors of a number, in any order; None if they cannot be listed.

    The divisors cannot be listed if there are more than `most`, or if one of the factors that were found may not be
    prime.

    Args:
        number: the number, at least 1.
        most: the largest number of divisors to list.
    """
    factors, are_primes = _find_factors(number, ())
    if not are_primes or prod(power + 1 for power in factors.values()) > most:
        return None
    divisors = [1]
    for prime, power in factors.items():
        divisors = [divisor * prime**exponent for divisor in divisors for exponent in range(power + 1)]
    return divisors


def _find_factors(volume: int, dims: Iterable[int]) -> tuple[Counter[int], bool]:
    """Returns factors whose product is the volume, and whether all of these factors are certainly prime."""
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
    # A number without prime factors below 1,000 is certainly prime if it is less than the square of the largest
    # candidate factor.
    return +factors, all(factor < _CANDIDATES[-1] ** 2 for factor in +factors)


def _multiply(factors: Counter[int]) -> tuple[list[int], list[int], bool]:
    """Returns two ascending lists of numbers, and whether the products of these numbers include all divisors.

    The product of a number from the first list and a number from the second list is always a divisor. Some divisors are
    missing if a list would become too long.
    """
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
