"""Products of factors and numbers, which are divided by other factors and a number.

The factors are names while a text is parsed, symbols in an expression, and keys of variables in the solvers.
"""

from collections import Counter
from collections.abc import Callable, Hashable
from math import gcd, prod
from typing import Generic, NamedTuple, TypeVar

AnyFactor = TypeVar("AnyFactor", bound=Hashable)
OtherFactor = TypeVar("OtherFactor", bound=Hashable)


class Product(NamedTuple, Generic[AnyFactor]):
    """The product `coefficient * factors / (divisor * divisors)`.

    Attributes:
        coefficient: the numeric factor.
        factors: the factors. A factor is repeated for each power of it.
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
        """Returns the product in lowest terms, and the removed factors. At most one of both numbers must be 0.

        Lemmas: cancel-nonzero, cancel-divisor.
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
        """Returns the product in which `find` has replaced each factor."""
        factors, divisors = tuple(map(find, self.factors)), tuple(map(find, self.divisors))
        return Product(self.coefficient, factors, self.divisor, divisors)
