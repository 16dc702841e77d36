"""A question as one equation of two volumes, in variables.

What may vary is a variable: a symbol, wherever it stands, or one dim without a name. Every dim of data and output is a
monomial: a number times variables, over a number times variables. The volume of the data equals that of the output, so
multiplying out what is below leaves two products of numbers and variables:

    [2*N, M] -> [K, N/3]        2 * N * M = K * N / 3        6 * N * M = K * N

Laws:
- A variable's range is what the question says of it, and holds whichever case of the solver is looked at.
- One encoding of "unbounded" in all solvers: an upper end of MAX_DIM or more is open. No dim is larger than MAX_DIM, so
  for a dim that is its bound as well; the product of the dims of data whose rank is unknown has the end UNBOUNDED.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Expression, Interval, Symbol, find_bounds, find_name
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion, Kind
from tensor_reshape.rules.refusals import (
    refuse_expected,
    refuse_expected_rank,
    refuse_expression,
    refuse_zero_volume,
)
from tensor_reshape.rules.targets import Target

UNBOUNDED = 1 << 2**16
"""More than any product: a question has some hundred dims and MAX_SYMBOLS symbols, each of them below 2^63."""


class Range(NamedTuple):
    """What a variable lies between, both included; open where `max` is MAX_DIM or more."""

    min: int
    max: int

    def meet(self, other: "Range") -> "Range":
        """Returns what both admit; empty where `max < min`.

        Lemma: meet-is-both.
        """
        return Range(max(self.min, other.min), min(self.max, other.max))

    def join(self, other: "Range") -> "Range":
        """Returns the least range that holds what either admits.

        Lemma: join-holds-both.
        """
        return Range(min(self.min, other.min), max(self.max, other.max))

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies in it."""
        return self.max < self.min

    @property
    def is_open(self) -> bool:
        """Whether nothing bounds it but what a dim may be at most."""
        return self.max >= MAX_DIM


POSITIVE = Range(1, MAX_DIM)
ZERO = Range(0, 0)


def find_range(dim: AnyDim) -> Range:
    """Returns what a dim lies between."""
    low, high = find_bounds(dim)
    return Range(low, MAX_DIM if high is None else high)


class Monomial(NamedTuple):
    """One dim of the data or of the output: `coefficient * variables / (divisor * divisors)`.

    Attributes:
        dim: what was said of it.
        coefficient: the number above.
        variables: the keys of the variables above, one for each power.
        divisor: the number below.
        divisors: the keys of the variables below; they are not 0.
        variable: the variable that the dim is; None where it is a number, or more than one variable.
    """

    dim: AnyDim
    coefficient: int = 1
    variables: tuple[int, ...] = ()
    divisor: int = 1
    divisors: tuple[int, ...] = ()
    variable: int | None = None

    @property
    def is_expression(self) -> bool:
        """Whether it is more than a number or one variable."""
        return self.variable is None and bool(self.variables or self.divisors)


class Equation(NamedTuple):
    """Two products that are equal.

    Attributes:
        left: the variables of the one, one for each power.
        right: those of the other.
        constants: the numbers in both.
        cancelled: the variables that stood on both sides, and do so no more.
    """

    left: list[int]
    right: list[int]
    constants: tuple[int, int]
    cancelled: tuple[int, ...] = ()

    def cancel(self) -> "Equation":
        """Returns what remains without what stands on both sides; it says the same where that is not 0.

        Lemmas: cancel-nonzero, cancel-divisor.
        """
        # One for one: of N * N = N * M one N is cancelled, and one is left. The order of the left side is kept, since
        # the search goes by it, and the same question is to have the same answer every time.
        right, left, cancelled = Counter(self.right), [], []
        for variable in self.left:
            if right.get(variable, 0):
                right[variable] -= 1
                cancelled.append(variable)
            else:
                left.append(variable)
        divisor = gcd(*self.constants)
        constants = (self.constants[0] // divisor, self.constants[1] // divisor)
        return Equation(left, [*right.elements()], constants, tuple(cancelled))


@dataclass(slots=True)
class System:
    """The variables of a question, and the monomials of its data and output.

    It grows while the question is read, and does not change after that.

    Attributes:
        ranges: of each variable, by its key.
        symbols: of the variables that have a name.
        data: the dims of the data by index; of data whose rank is unknown, those that are copied.
        rest: the variable that stands for all other dims of data whose rank is unknown.
        output: the dims of the output.
    """

    ranges: list[Range] = field(default_factory=list)
    symbols: dict[int, Symbol] = field(default_factory=dict)
    data: dict[int, Monomial] = field(default_factory=dict)
    rest: int | None = None
    output: list[Monomial] = field(default_factory=list)
    _keys: dict[str, int] = field(default_factory=dict)  # of the variables, by their names

    def add_variable(self, bounds: Range) -> int:
        """Returns the key of a new variable."""
        self.ranges.append(bounds)
        return len(self.ranges) - 1

    def add_monomial(self, dim: AnyDim, path: str) -> Monomial:
        """Returns a dim as a monomial, and narrows the symbols in it to what is said of them here.

        Args:
            dim: a number, or what is known of it.
            path: of the dim, for a refusal.

        Raises:
            InvalidRequestError: SYMBOL_CONFLICT, where nothing is left of a symbol.
        """
        # A 0 is a variable from 0 to 0, not a number: the cases ask which variables of a side can be 0.
        if isinstance(dim, int) and dim:
            return Monomial(dim, dim)
        if dim is None or isinstance(dim, int) or dim.expression is None:
            key = self.add_variable(find_range(dim))
            return Monomial(dim, variables=(key,), variable=key)
        expression = dim.expression
        variables = self._name_variables(expression.factors, path)
        divisors = self._name_variables(expression.divisors, path)
        # What divides is not 0, wherever else the symbol stands: the contract says so of every expression.
        for symbol, key in zip(expression.divisors, divisors, strict=True):
            self._narrow(key, POSITIVE, symbol.name, path)
        if expression.symbol is None:
            self._narrow_factor(expression, variables, dim.bounds, path)
            return Monomial(dim, expression.coefficient, variables, expression.divisor, divisors)
        self._narrow(variables[0], find_range(dim), expression.symbol.name, path)
        return Monomial(dim, variables=variables, variable=variables[0])

    def bound_monomial(self, monomial: Monomial, solution: Mapping[int, Range] | None = None) -> Range:
        """Returns what a dim lies between: what is said of it, and what its variables leave; empty where it is no dim.

        Lemma: bound-a-fraction.

        Args:
            monomial: the dim.
            solution: the ranges of the variables of the output; None: those of the question.
        """
        if monomial.variable is not None:
            return (self.ranges if solution is None else solution)[monomial.variable]
        # The widest quotient, rounded inwards: the division is exact, so nothing between two integers is a dim.
        low = high = monomial.coefficient
        for key in monomial.variables:
            own = (self.ranges if solution is None else solution)[key]
            low, high = low * own.min, high * own.max
        least = most = monomial.divisor
        for key in monomial.divisors:
            own = self.ranges[key]
            least, most = least * own.min, most * own.max
        return find_range(monomial.dim).meet(Range(-(-low // most), high // least))

    def equate(self, target: Target[AnyDim]) -> Equation:
        """Returns the equation of the volumes; what the target cancels is on neither side.

        Lemma: multiply-out.
        """
        cancelled = target.cancelled
        left, right = list[int](), list[int]()
        above = below = 1
        for index, monomial in self.data.items():
            if index not in cancelled:
                above *= monomial.coefficient * self._list_unknown(monomial.variables, left)
                below *= monomial.divisor * self._list_unknown(monomial.divisors, right)
        if self.rest is not None:
            left.append(self.rest)
        for index, monomial in enumerate(self.output):
            if index not in cancelled:
                below *= monomial.coefficient * self._list_unknown(monomial.variables, right)
                above *= monomial.divisor * self._list_unknown(monomial.divisors, left)
        return Equation(left, right, (above, below))

    def can_be_zero(self, key: int) -> bool:
        """Whether a variable may be 0."""
        return self.ranges[key].min == 0

    def _list_unknown(self, keys: tuple[int, ...], unknown: list[int]) -> int:
        """Adds the variables to `unknown`, but for those that are a number; returns the product of these."""
        known = 1
        for key in keys:
            low, high = self.ranges[key]
            if low and low == high:  # a 0 stays a variable, see `add_monomial`
                known *= low
            else:
                unknown.append(key)
        return known

    def _narrow(self, key: int, bounds: Range, name: str, path: str) -> None:
        """Notes what else is known of a variable."""
        met = self.ranges[key].meet(bounds)
        if met.is_empty:
            message = f"{name} would have to lie from {met.min} to {met.max}, by what is said of it in several places"
            raise InvalidRequestError.of(Reason.SYMBOL_CONFLICT, message, path, symbol=name, min=met.min, max=met.max)
        self.ranges[key] = met

    def _narrow_factor(self, expression: Expression, keys: tuple[int, ...], bounds: Interval, path: str) -> None:
        """Notes what an expression says of its only symbol; of a product of several, nothing is concluded.

        Lemmas: bound-the-only-symbol, step-by-the-other-constant.
        """
        # Of a product that is at least 6, neither factor is at least anything: so of one symbol alone.
        if len(keys) != 1 or expression.divisors:
            return
        if bounds != ANY:
            low, high = bounds
            least = -(-low * expression.divisor // expression.coefficient)
            most = MAX_DIM if high is None else high * expression.divisor // expression.coefficient
            self._narrow(keys[0], Range(least, most), expression.factors[0].name, path)
        # N/196 is a whole number, so N is a multiple of 196. Where none is left, the range stays as it is:
        # `_check_expressions` names the whole expression, and refuses what has no number between its rounded ends.
        step, own = expression.divisor // gcd(expression.divisor, expression.coefficient), self.ranges[keys[0]]
        stepped = Range(-(-own.min // step) * step, own.max if own.is_open else own.max // step * step)
        if not stepped.is_empty:
            self.ranges[keys[0]] = stepped

    def _name_variables(self, symbols: Sequence[Symbol], path: str) -> tuple[int, ...]:
        return tuple([self._name_variable(symbol, path) for symbol in symbols])

    def _name_variable(self, symbol: Symbol, path: str) -> int:
        low, high = symbol.bounds
        bounds = Range(low, MAX_DIM if high is None else high)
        key = self._keys.get(symbol.name)
        if key is None:
            key = self._keys[symbol.name] = self.add_variable(bounds)
            self.symbols[key] = symbol
        else:
            self._narrow(key, bounds, symbol.name, path)
        return key


def build_system(question: AnyQuestion, target: Target[AnyDim]) -> System:
    """Returns a question in variables.

    Args:
        question: whose dims have been checked, each by itself.
        target: of the question.

    Raises:
        InvalidRequestError: SYMBOL_CONFLICT, DIM_OUT_OF_RANGE, MINUS_ONE_WITH_ZERO_VOLUME, EXPECTED_SHAPE_MISMATCH, or
            the refusal of the target.
    """
    system = System()
    if question.data is None:
        system.rest = system.add_variable(Range(0, UNBOUNDED))
    for index, dim in enumerate(question.data or ()):
        system.data[index] = system.add_monomial(dim, f"data.dims[{index}]")
    for index, (kind, item) in enumerate(zip(target.kinds, question.target or (), strict=False)):
        system.output.append(_add_item(system, kind, index, item))
    # After the items before it: their symbols are blamed first. See `Target.refusal`.
    if target.refusal is not None:
        raise target.refusal
    if target.inferred is not None and target.product == 0:
        raise refuse_zero_volume(question, target.inferred)
    if question.expected is not None:
        _expect(system, target, question.expected)
    _check_expressions(system, system.data.items(), "data.dims")
    _check_expressions(system, enumerate(system.output), "shape")
    return system


def _add_item(system: System, kind: Kind, index: int, item: AnyDim) -> Monomial:
    if kind is Kind.INFERRED:
        item = None  # a variable of its own, which nothing is known of
    if kind is not Kind.COPIED:
        return system.add_monomial(item, f"shape[{index}]")
    if index not in system.data:  # of data whose rank is unknown
        system.data[index] = system.add_monomial(None, f"data.dims[{index}]")
    return system.data[index]


def _expect(system: System, target: Target[AnyDim], expected: Sequence[AnyDim]) -> None:
    """Narrows the output to what the caller counts on, and names dims of it that have no name."""
    if len(expected) != len(system.output):
        raise refuse_expected_rank([monomial.dim for monomial in system.output], expected)
    for index, (monomial, want) in enumerate(zip(system.output, expected, strict=True)):
        key = monomial.variable
        met = (find_range(monomial.dim) if key is None else system.ranges[key]).meet(find_range(want))
        if met.is_empty:
            raise refuse_expected(index, monomial.dim, want)
        # Of an expression nothing is concluded for its symbols: many values of theirs make it what is expected.
        if key is not None:
            system.ranges[key] = met
        is_named = find_name(want) is not None and find_name(monomial.dim) is None
        if is_named and isinstance(want, Dim) and target.kinds[index] is not Kind.COPIED:
            bounds = Interval(*met)
            named = system.add_monomial(Dim(bounds, want.expression), f"expected_shape.dims[{index}]")
            # An item that may copy keeps its own variable: the cases of a 0 look at the item by itself.
            system.output[index] = monomial._replace(dim=want) if index in target.may_copy else named


def _check_expressions(system: System, monomials: Iterable[tuple[int, Monomial]], field_name: str) -> None:
    """Checks that every expression is a dim for some values of its symbols.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE or SYMBOL_CONFLICT.
    """
    for index, monomial in monomials:
        if monomial.is_expression:
            bounds, path = system.bound_monomial(monomial), f"{field_name}[{index}]"
            if bounds.is_empty:
                raise refuse_expression(path, index, monomial.dim, Interval(*bounds))
