"""Translates a query into variables and one equation between the volumes of data and output.

Each symbol is one variable, even if the symbol occurs in several dims. Sums with a common base, such as `b + 1` and
`2*b + 2`, also share a variable. The value of this variable is the sum that comes first in the query. Each dim without
a name is a variable, too. Every dim of the data and the output is written as a monomial, which is a product of
variables and a number. The equation says that the data and the output have the same volume. Both sides of the equation
are multiplied by the divisors of all dims. The equation is stored as one product, in which the left side is the
dividend and the right side is the divisor. In this example, both sides are multiplied by 3:

    [2*N, M] -> [K, N/3]        2 * N * M = K * N / 3        6 * N * M = K * N        6 * N * M / (K * N)

Invariants:

- The query determines a range for each variable, and this range holds in every case of the solver.
- In all solvers, a range without an upper bound ends at MAX_DIM or a larger number. For a dim, MAX_DIM is always a
  correct upper bound, because no dim exceeds MAX_DIM. If the rank of the data is unknown, the product of its dims may
  exceed MAX_DIM, so its range ends at UNBOUNDED.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.dims import (
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    find_bounds,
    find_name,
    make_legal_expression,
)
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import read_multiple
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.questions import AnyQuestion, Kind
from tensor_reshape.rules.rejections import (
    reject_expected,
    reject_expected_rank,
    reject_expression,
    reject_zero_volume,
)
from tensor_reshape.rules.targets import Target

UNBOUNDED = 1 << 2**16
"""A number above every product in a query. A query has a few hundred dims and MAX_SYMBOLS symbols, each below 2^63."""


class Range(NamedTuple):
    """The range of a variable, including both ends.

    If `max` is MAX_DIM or more, the range is open, so it has no upper bound.
    """

    min: int
    max: int

    def meet(self, other: "Range") -> "Range":
        """Returns the intersection of two ranges. An intersection whose `max` is below its `min` is empty.

        See the lemma meet-is-both in `verification/lemmas.py`.
        """
        return Range(max(self.min, other.min), min(self.max, other.max))

    def join(self, other: "Range") -> "Range":
        """Returns the smallest range that contains both ranges.

        See the lemma join-holds-both in `verification/lemmas.py`.
        """
        return Range(min(self.min, other.min), max(self.max, other.max))

    @property
    def is_empty(self) -> bool:
        """Whether the range contains no value."""
        return self.max < self.min

    @property
    def is_open(self) -> bool:
        """Whether the range has no upper bound other than the largest possible dim."""
        return self.max >= MAX_DIM

    @property
    def bounds(self) -> Interval:
        """The range as an interval, which has no upper end if the range is open."""
        return Interval(self.min, None if self.is_open else self.max)


POSITIVE = Range(1, MAX_DIM)
ZERO = Range(0, 0)


def find_range(dim: AnyDim) -> Range:
    """Returns the range of a dim."""
    low, high = find_bounds(dim)
    return Range(low, MAX_DIM if high is None else high)


class Monomial(NamedTuple):
    """One dim of the data or the output, and the product that is equal to it.

    Attributes:
        dim: the dim as it is written in the query.
        product: the product of variables. The variables in the divisor of this product are never 0.
        variable: the key of the variable, if the dim is a single variable; None for a number or an expression.
    """

    dim: AnyDim
    product: Product[int]
    variable: int | None = None


def fold(product: Product[int], ranges: Sequence[Range], least: int) -> Product[int]:
    """Returns the product after variables with only one possible value have become numbers.

    A variable whose value is below `least` stays a variable.
    """
    factors, divisors = list[int](), list[int]()
    coefficient = product.coefficient * _list_unknown(product.factors, ranges, least, factors)
    divisor = product.divisor * _list_unknown(product.divisors, ranges, least, divisors)
    return Product(coefficient, tuple(factors), divisor, tuple(divisors))


def _list_unknown(keys: tuple[int, ...], ranges: Sequence[Range], least: int, unknown: list[int]) -> int:
    """Returns the product of the variables with only one possible value, and adds the other variables to `unknown`."""
    known = 1
    for key in keys:
        low, high = ranges[key]
        if low == high >= least:
            known *= low
        else:
            unknown.append(key)
    return known


@dataclass(slots=True)
class System:
    """The variables of a query, and the monomials of its data and output.

    Variables are added while the query is read. Solving the equation does not change the system.

    Attributes:
        ranges: the range of each variable, by its key.
        symbols: the symbol of each variable that has a name, by the key of the variable.
        data: the data dims by index. If the rank of the data is unknown, this mapping contains only the copied dims.
        rest: the variable for the product of all other data dims, if the rank of the data is unknown; otherwise None.
        output: the dims of the output.
    """

    ranges: list[Range] = field(default_factory=list)
    symbols: dict[int, Symbol] = field(default_factory=dict)
    data: dict[int, Monomial] = field(default_factory=dict)
    rest: int | None = None
    output: list[Monomial] = field(default_factory=list)
    # for each base of a name, the key of its variable, and the number by which the base is multiplied in this variable
    _keys: dict[Hashable, tuple[int, int]] = field(default_factory=dict)

    def add_variable(self, bounds: Range) -> int:
        """Returns the key of a new variable."""
        self.ranges.append(bounds)
        return len(self.ranges) - 1

    def add_monomial(self, dim: AnyDim, path: str) -> Monomial:
        """Returns a dim as a monomial, and narrows the ranges of its symbols to the bounds that the dim declares.

        Args:
            dim: a number, or a partially known dim.
            path: the path of the dim, for errors.

        Raises:
            InvalidRequestError: the reason is SYMBOL_CONFLICT if no value of a symbol is left.
        """
        # A dim of 0 is not a constant but a variable with the range 0 to 0, because the solver examines which variables
        # can be 0.
        if isinstance(dim, int) and dim:
            return Monomial(dim, Product(dim, ()))
        if dim is None or isinstance(dim, int) or dim.expression is None:
            key = self.add_variable(find_range(dim))
            return Monomial(dim, Product(1, (key,)), key)
        expression = dim.expression
        variables, above, below = self._name_variables(expression.factors, path)
        divisors, under, over = self._name_variables(expression.divisors, path)
        # The API defines that a divisor in an expression is never 0. If a symbol is a divisor in one expression, the
        # symbol is therefore not 0 in any other dim.
        for symbol, key in zip(expression.divisors, divisors, strict=True):
            self._narrow(key, POSITIVE, symbol.name, path)
        above, below = above * over * expression.coefficient, below * under * expression.divisor
        if above % below == 0:
            above, below = above // below, 1
        if expression.symbol is None or (above, below) != (1, 1):
            monomial = Monomial(dim, Product(above, variables, below, divisors))
            self._narrow_factor(monomial, expression.symbols[0].name, path)
            return monomial
        self._narrow(variables[0], find_range(dim), expression.symbol.name, path)
        return Monomial(dim, Product(1, variables), variables[0])

    def bound_monomial(self, monomial: Monomial, solution: Mapping[int, Range] | None = None) -> Range:
        """Returns the range of a dim from its bounds and its variables; the range is empty if no value is possible.

        See the lemma bound-a-fraction in `verification/lemmas.py`.

        Args:
            monomial: the dim.
            solution: the ranges of the output variables. If `solution` is None, the ranges of the query are used.
        """
        if monomial.variable is not None:
            return (self.ranges if solution is None else solution)[monomial.variable]
        # The value of the dim is an integer. The lower bound of the quotient is therefore rounded up, and the upper
        # bound is rounded down.
        coefficient, factors, divisor, divisors = monomial.product
        low = high = coefficient
        for key in factors:
            own = (self.ranges if solution is None else solution)[key]
            low, high = low * own.min, high * own.max
        least = most = divisor
        for key in divisors:
            own = self.ranges[key]
            least, most = least * own.min, most * own.max
        return find_range(monomial.dim).meet(Range(-(-low // most), high // least))

    def equate(self, target: Target[AnyDim]) -> Product[int]:
        """Returns the volume of the data divided by the volume of the output, without the dims that the target cancels.

        See the lemma multiply-out in `verification/lemmas.py`.
        """
        # All products are multiplied in one pass, because the equation is computed for each case of a query and must
        # not take long. A 0 stays a variable, for the reason in `add_monomial`.
        ranges, cancelled = self.ranges, target.cancelled
        left, right = list[int](), list[int]()
        above = below = 1
        for index, monomial in self.data.items():
            if index not in cancelled:
                coefficient, factors, divisor, divisors = monomial.product
                above *= coefficient * _list_unknown(factors, ranges, 1, left)
                below *= divisor * _list_unknown(divisors, ranges, 1, right)
        if self.rest is not None:
            left.append(self.rest)
        for index, monomial in enumerate(self.output):
            if index not in cancelled:
                coefficient, factors, divisor, divisors = monomial.product
                below *= coefficient * _list_unknown(factors, ranges, 1, right)
                above *= divisor * _list_unknown(divisors, ranges, 1, left)
        return Product(above, tuple(left), below, tuple(right))

    def can_be_zero(self, key: int) -> bool:
        """Whether a variable may be 0."""
        return self.ranges[key].min == 0

    def list_steps(self) -> Iterator[tuple[int, int]]:
        """Yields each variable that is always a multiple of a number above 1, and this number."""
        return ((key, step) for key, step in self._keys.values() if step > 1)

    def _narrow(self, key: int, bounds: Range, name: str, path: str) -> None:
        """Narrows the range of a variable to `bounds`, or raises the error if no value is left."""
        met = self.ranges[key].meet(bounds)
        if met.is_empty:
            message = f"{name} has no possible value: its bounds in the query give {met.min} to {met.max}"
            raise InvalidRequestError.of(Reason.SYMBOL_CONFLICT, message, path, symbol=name, min=met.min, max=met.max)
        self.ranges[key] = met

    def _narrow_factor(self, monomial: Monomial, name: str, path: str) -> None:
        """Narrows the range of a symbol that is the only symbol of an expression.

        See the lemmas bound-the-only-symbol and step-by-the-other-constant in `verification/lemmas.py`.
        """
        # If an expression has several symbols, the bounds of the expression do not bound a single symbol. For example,
        # if the product of two symbols is at least 6, either symbol may still be 1.
        coefficient, factors, divisor, divisors = monomial.product
        if len(factors) != 1 or divisors:
            return
        (key,) = factors
        self._narrow(key, _divide(find_bounds(monomial.dim), coefficient, divisor), name, path)
        # For example, if N/196 is a dim, N is a multiple of 196, so both bounds of N are moved to multiples of 196. If
        # the range contains no multiple, it stays unchanged, and `_check_expressions` reports the whole expression.
        step, own = divisor // gcd(divisor, coefficient), self.ranges[key]
        stepped = Range(-(-own.min // step) * step, own.max if own.is_open else own.max // step * step)
        if not stepped.is_empty:
            self.ranges[key] = stepped

    def _name_variables(self, symbols: Sequence[Symbol], path: str) -> tuple[tuple[int, ...], int, int]:
        """Returns variables, and the numbers `above` and `below`.

        The product of the symbols is equal to the product of the variables times `above / below`.
        """
        keys, above, below = list[int](), 1, 1
        for symbol in symbols:
            key, factor, base_factor = self._name_variable(symbol, path)
            keys.append(key)
            above, below = above * factor, below * base_factor
        return tuple(keys), above, below

    def _name_variable(self, symbol: Symbol, path: str) -> tuple[int, int, int]:
        """Returns the key of a variable, and the numbers `above` and `below`.

        The symbol is equal to this variable times `above / below`.
        """
        factor, base, least = read_multiple(symbol.name)
        low, high = symbol.bounds
        key, own = self._keys.get(base, (None, factor))
        if key is not None:
            self._narrow(key, _divide(symbol.bounds, factor, own), symbol.name, path)
            return key, factor, own
        key = self.add_variable(Range(low, MAX_DIM if high is None else high))
        self._keys[base], self.symbols[key] = (key, factor), symbol
        if least > low:
            self._narrow(key, Range(least, MAX_DIM), symbol.name, path)
        return key, 1, 1


def name_product(product: Product[int], symbols: Mapping[int, Symbol]) -> Expression | None:
    """Returns a product of symbols instead of variables; None if a variable has no symbol, or a number is too large."""
    if not symbols.keys() >= {*product.factors, *product.divisors}:
        return None
    return make_legal_expression(*product.map_factors(symbols.__getitem__))


def _divide(bounds: Interval, above: int, below: int) -> Range:
    """Returns the range of a variable for which `above / below` times the variable is within `bounds`."""
    low, high = bounds
    return Range(-(-low * below // above), MAX_DIM if high is None else high * below // above)


def build_system(question: AnyQuestion, target: Target[AnyDim]) -> System:
    """Returns the variables and the monomials of a query.

    Args:
        question: the query, whose dims have been checked.
        target: the target of the query.

    Raises:
        InvalidRequestError: the reason is SYMBOL_CONFLICT, DIM_OUT_OF_RANGE, MINUS_ONE_WITH_ZERO_VOLUME,
            EXPECTED_SHAPE_MISMATCH, or that of `target.rejection`.
    """
    system = System()
    if question.data is None:
        system.rest = system.add_variable(Range(0, UNBOUNDED))
    for index, dim in enumerate(question.data or ()):
        system.data[index] = system.add_monomial(dim, f"data.dims[{index}]")
    for index, (kind, item) in enumerate(zip(target.kinds, question.target or (), strict=False)):
        system.output.append(_add_item(system, kind, index, item))
    # The rejection of the requested shape is raised only now, because contradictory symbols in earlier items are
    # reported first.
    if target.rejection is not None:
        raise target.rejection
    if target.inferred is not None and _has_zero(system, target):
        raise reject_zero_volume(question, target.inferred)
    if question.expected is not None:
        _expect(system, target, question.expected)
    _check_expressions(system, system.data.items(), "data.dims")
    _check_expressions(system, enumerate(system.output), "shape")
    return system


def _has_zero(system: System, target: Target[AnyDim]) -> bool:
    """Whether an item other than the -1 is 0 in every instance, so that the -1 cannot be computed."""
    return any(
        index not in target.cancelled and system.bound_monomial(monomial) == ZERO
        for index, monomial in enumerate(system.output)
    )


def _add_item(system: System, kind: Kind, index: int, item: AnyDim) -> Monomial:
    if kind is Kind.INFERRED:
        item = None  # the -1 in the requested shape becomes a new variable without bounds
    if kind is not Kind.COPIED:
        return system.add_monomial(item, f"shape[{index}]")
    if index not in system.data:  # this data dim is not known yet, because the data has an unknown rank
        system.data[index] = system.add_monomial(None, f"data.dims[{index}]")
    return system.data[index]


def _expect(system: System, target: Target[AnyDim], expected: Sequence[AnyDim]) -> None:
    """Narrows the output to the expected shape, and gives the expected names to output dims without a name."""
    if len(expected) != len(system.output):
        raise reject_expected_rank([monomial.dim for monomial in system.output], expected)
    for index, (monomial, want) in enumerate(zip(system.output, expected, strict=True)):
        key = monomial.variable
        met = system.bound_monomial(monomial).meet(find_range(want))
        if met.is_empty:
            raise reject_expected(index, monomial.dim, want)
        # The range of an output dim is recorded only if the dim is a single variable. The bounds of a product do not
        # bound a single factor, so the symbols of an expression keep their ranges.
        if key is not None:
            system.ranges[key] = met
        is_free = find_name(monomial.dim) is None or met.min == met.max
        is_named = find_name(want) is not None and is_free
        if is_named and isinstance(want, Dim) and target.kinds[index] is not Kind.COPIED:
            bounds = Interval(*met)
            named = system.add_monomial(Dim(bounds, want.expression), f"expected_shape.dims[{index}]")
            # An item that may copy keeps its own variable, because the solver examines for each item separately whether
            # it copies a 0. A -1 keeps its variable if the name is a multiple of another variable.
            is_own = index in target.may_copy or named.variable is None
            system.output[index] = monomial._replace(dim=want) if is_own else named


def _check_expressions(system: System, monomials: Iterable[tuple[int, Monomial]], field_name: str) -> None:
    """Checks that every expression is a valid dim for some values of its symbols.

    Raises:
        InvalidRequestError: the reason is DIM_OUT_OF_RANGE or SYMBOL_CONFLICT.
    """
    for index, monomial in monomials:
        if monomial.variable is None and (monomial.product.factors or monomial.product.divisors):
            bounds, path = system.bound_monomial(monomial), f"{field_name}[{index}]"
            if bounds.is_empty:
                raise reject_expression(path, index, monomial.dim, Interval(*bounds))
