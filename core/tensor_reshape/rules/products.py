"""Uses exact arithmetic to compute products of factors and numbers, divisors close to a number, and integer roots.

The factors of a product have one of three types. While a text is parsed, the factors are names. In an expression, they
are symbols. In the solvers, they are keys of variables. A product may be divided by other factors and a number.

Invariants of `find_near_divisors`: each returned number divides the volume, and the quotient of the volume and this
number is a valid dim. For any input, a call takes at most some tenths of a millisecond. To stay within that time, the
search can leave large factors unfactorised, or examine only some of the divisors. If the search has skipped divisors,
the result does not claim to contain the nearest divisors.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from math import gcd, prod
from typing import Generic, NamedTuple, TypeVar

from tensor_reshape.rules.limits import MAX_DIM

AnyFactor = TypeVar("AnyFactor", bound=Hashable)
OtherFactor = TypeVar("OtherFactor", bound=Hashable)


class Product(NamedTuple, Generic[AnyFactor]):
    """The product `coefficient * factors / (divisor * divisors)`.

    Attributes:
        coefficient: the numeric factor.
        factors: the factors. A factor that is squared occurs twice.
        divisor: the numeric divisor.
        divisors: the factors of the divisor, in the same form as `factors`.
    """

    coefficient: int
    factors: tuple[AnyFactor, ...]
    divisor: int = 1
    divisors: tuple[AnyFactor, ...] = ()

    def multiply(self, *others: "Product[AnyFactor]") -> "Product[AnyFactor]":
        """Returns the product of this product and other products."""
        every = (self, *others)
        return Product(
            prod([one.coefficient for one in every]),
            tuple([factor for one in every for factor in one.factors]),
            prod([one.divisor for one in every]),
            tuple([factor for one in every for factor in one.divisors]),
        )

    def invert(self) -> "Product[AnyFactor]":
        """Returns the reciprocal of this product."""
        return Product(self.divisor, self.divisors, self.coefficient, self.factors)

    def cancel(self) -> tuple["Product[AnyFactor]", tuple[AnyFactor, ...]]:
        """Returns the product in lowest terms, and the removed factors. `coefficient` and `divisor` must not both be 0.

        See the lemmas cancel-nonzero and cancel-divisor in `verification/lemmas.py`.
        """
        number = gcd(self.coefficient, self.divisor)
        coefficient, divisor = self.coefficient // number, self.divisor // number
        if set(self.factors).isdisjoint(self.divisors):
            return Product(coefficient, self.factors, divisor, self.divisors), ()
        # Each factor cancels only one equal divisor, so N * N / (N * M) becomes N / M. The other factors keep their
        # order, because the search follows this order, and a query must always get the same result.
        divisors, factors, removed = Counter(self.divisors), list[AnyFactor](), list[AnyFactor]()
        for factor in self.factors:
            if divisors.get(factor, 0):
                divisors[factor] -= 1
                removed.append(factor)
            else:
                factors.append(factor)
        return Product(coefficient, tuple(factors), divisor, tuple(divisors.elements())), tuple(removed)

    def map_factors(self, find: Callable[[AnyFactor], OtherFactor]) -> "Product[OtherFactor]":
        """Returns the product with each factor replaced by the result of `find`."""
        factors, divisors = tuple(map(find, self.factors)), tuple(map(find, self.divisors))
        return Product(self.coefficient, factors, self.divisor, divisors)


_DIM_BITS = 64


def find_root(value: int, power: int) -> int:
    """Returns the largest integer r with r**power <= value. If `power` is above 1, the result is at most 2^64.

    The limit 2^64 is above every dim. It saves time, because a calculation with thousands of digits would take longer
    than one step of the budget may take.
    """
    if power > 1 and value.bit_length() > _DIM_BITS * power:
        return 1 << _DIM_BITS
    return _take_root(value, power)


def find_root_above(value: int, power: int) -> int:
    """Returns the smallest integer r with r**power >= value."""
    root = find_root(value, power)
    return root if root**power >= value else root + 1


def find_exact_root(value: int, power: int) -> int | None:
    """Returns the integer r with r**power == value, or None if there is no such integer."""
    root = _take_root(value, power)
    return root if root**power == value else None


def _take_root(value: int, power: int) -> int:
    """Returns the largest integer r with r**power <= value. Floats would be inexact above 2^53.

    See the lemma root-steps in `verification/lemmas.py`.
    """
    if power == 1 or value == 0:
        return value
    root = 1 << -(-value.bit_length() // power)  # Newton's method starts above the root
    while True:
        lower = ((power - 1) * root + value // root ** (power - 1)) // power
        if lower >= root:
            return root
        root = lower


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
        are_nearest: whether it is certain that the volume has no divisors closer to the number.
    """

    values: list[int]
    are_nearest: bool


def find_near_divisors(volume: int, near: int, dims: Iterable[int]) -> NearDivisors:
    """Returns divisors of a volume that are close to a number.

    Args:
        volume: the volume, at least 1.
        near: the number, which does not divide the volume.
        dims: the dims whose product is the volume. These dims help to find large factors of the volume.
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

    The divisors cannot be listed if there are more than `most`, or if it is not certain that all factors that were
    found are prime.

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
