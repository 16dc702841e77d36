"""The divisors of a volume next to a number: by which a -1 could have been divided.

Laws: what is found divides the volume, and leaves a quotient that is a dim. The cost is bounded, whatever the numbers
are: some tenths of a millisecond. So a large factor may not be told apart, or there may be too many divisors to look at
all of them; then it is not said that there are none nearer.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from math import gcd, prod
from typing import NamedTuple

from tensor_reshape.rules.limits import MAX_DIM

_CANDIDATES = (2, *range(3, 1000, 2))
"""What may be a prime factor, all that are below 1,000 among them: the shapes of tensors have few that are not."""

_HALF = 64
"""How many products each half of the factors may have. Shapes of tensors seldom have more than 1,000 divisors."""


class NearDivisors(NamedTuple):
    """Some divisors of a volume.

    Attributes:
        values: the greatest below a number, and the least above it, as far as there are any; ascending.
        are_nearest: whether there are none nearer.
    """

    values: list[int]
    are_nearest: bool


def find_near_divisors(volume: int, near: int, dims: Iterable[int]) -> NearDivisors:
    """Returns the divisors of a volume next to a number.

    Args:
        volume: at least 1.
        near: the number, which does not divide it.
        dims: of which some make the volume: they tell its large factors apart.
    """
    factors, are_primes = _find_factors(volume, dims)
    low, high, are_all = _multiply(factors)
    least = -(-volume // MAX_DIM)  # a quotient above would be no dim
    start = max(near, least - 1)
    above, below = volume, 0  # the volume itself is a divisor, be it among the products or not
    for divisor in low:
        # Each divisor is a product of one of `low` and one of `high`: with each of the former, two are next to `near`.
        at = bisect_right(high, start // divisor)
        above = min(above, divisor * high[at]) if at < len(high) else above
        at = bisect_right(high, near // divisor)
        below = max(below, divisor * high[at - 1]) if at else below
    values = {above} if below < least else {below, above}
    return NearDivisors(sorted(values), are_primes and are_all)


def list_divisors(number: int, most: int) -> list[int] | None:
    """Returns all divisors of a number, in no order; None where there are more, or a factor may be no prime.

    Args:
        number: at least 1.
        most: how many there may be.
    """
    factors, are_primes = _find_factors(number, ())
    if not are_primes or prod(power + 1 for power in factors.values()) > most:
        return None
    divisors = [1]
    for prime, power in factors.items():
        divisors = [divisor * prime**exponent for divisor in divisors for exponent in range(power + 1)]
    return divisors


def _find_factors(volume: int, dims: Iterable[int]) -> tuple[Counter[int], bool]:
    """Returns factors whose product is the volume, and whether all are primes for sure."""
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
    # What has no divisor below 1,000 is a prime, if it is below the square of that.
    return +factors, all(factor < _CANDIDATES[-1] ** 2 for factor in +factors)


def _multiply(factors: Counter[int]) -> tuple[list[int], list[int], bool]:
    """Returns two ascending lists, whose products by pairs are divisors, and whether all are among them."""
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
