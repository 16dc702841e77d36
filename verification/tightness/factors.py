"""Prime factors and divisors, as far as they are found in a bounded time."""

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

_LARGEST_PRIME = 1 << 16
_LARGEST = 1 << 64  # what is larger takes too long, and stands for a dim without a bound
MAX_DIVISORS = 512


@lru_cache(65536)
def find_factors(number: int) -> tuple[tuple[tuple[int, int], ...], bool]:
    """Returns prime factors with their powers, and whether all are primes for sure: of what is below 2^32 they are."""
    if number > _LARGEST:
        return ((number, 1),), False
    factors, rest, prime = Counter[int](), number, 2
    while prime < _LARGEST_PRIME and prime * prime <= rest:
        while rest % prime == 0:
            rest //= prime
            factors[prime] += 1
        prime += 1 if prime == 2 else 2
    factors[rest] += rest > 1
    return tuple((+factors).items()), rest < _LARGEST_PRIME**2


def find_divisors(parts: Iterable[int], low: int, high: int) -> tuple[list[int], bool]:
    """Returns divisors of the product of `parts` between two ends, ascending, and whether there are no others."""
    powers, complete = Counter[int](), True
    for part in parts:
        factors, are_primes = find_factors(part)
        complete = complete and are_primes
        powers.update(dict(factors))
    divisors = [1]
    for prime, power in sorted(powers.items(), reverse=True):
        grown = [one * prime**exponent for one in divisors for exponent in range(power + 1)]
        divisors = [one for one in grown if one <= high]
        if len(divisors) > MAX_DIVISORS:
            divisors, complete = sorted(divisors)[:: 1 + len(divisors) // MAX_DIVISORS], False
    return sorted(one for one in divisors if one >= low), complete
