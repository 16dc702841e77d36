"""Dims that may be partially known: an interval, a symbol, an expression of symbols, or unknown.

A dim is an `int`, a `Dim`, or None if nothing is known.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeGuard

from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS, is_name, write_factor, write_name

MAX_FACTORS = 64
"""Number of symbols in an expression, counting powers. It is a product of dims, and no shape has more."""

MAX_SYMBOLS = 256
"""Number of symbols in all expressions of one query, counting repetitions."""


class Interval(NamedTuple):
    """A range of integers, including both ends.

    Attributes:
        min: the lower end, at least 0.
        max: the upper end; None: unlimited.

    >>> Interval(2, None).holds(8), Interval(2, 8).meet(Interval(4, None))
    (True, Interval(min=4, max=8))
    """

    min: int
    max: int | None

    def meet(self, other: "Interval") -> "Interval":
        """Returns the intersection; empty if `max < min`."""
        if self.max is None or other.max is None:
            high = self.max if other.max is None else other.max
        else:
            high = min(self.max, other.max)
        return Interval(max(self.min, other.min), high)

    def join(self, other: "Interval") -> "Interval":
        """Returns the smallest interval that contains both."""
        high = None if self.max is None or other.max is None else max(self.max, other.max)
        return Interval(min(self.min, other.min), high)

    @property
    def is_empty(self) -> bool:
        """Whether the interval contains no integer."""
        return self.max is not None and self.max < self.min

    def holds(self, value: int) -> bool:
        """Whether the interval contains `value`."""
        return self.min <= value and (self.max is None or value <= self.max)


ANY = Interval(0, None)
_INT = frozenset({int})
_SHOWN_FACTORS = 8


class Symbol(NamedTuple):
    """A named dim. Equal names in one query are the same dim.

    Attributes:
        name: the name, as the caller wrote it.
        bounds: its range.

    >>> client.infer_shape([Symbol("batch"), 4], [-1], special_zero=False)
    InferredShape([4*batch])
    """

    name: str
    bounds: Interval = ANY


class Expression(NamedTuple):
    """The symbolic expression of a dim: `coefficient * factors / (divisor * divisors)`, an exact division.

    Attributes:
        coefficient: at least 1.
        factors: the factors, ordered by name and repeated for each power.
        divisor: at least 1.
        divisors: the divisors, in the same form; they are not 0.

    >>> str(Expression(4, (Symbol("C"),), 2))
    '4*C/2'
    """

    coefficient: int
    factors: tuple[Symbol, ...]
    divisor: int = 1
    divisors: tuple[Symbol, ...] = ()

    def __str__(self) -> str:
        """The expression in the usual notation: `4*C`, `N^2/2`, `N/(2*M)`, `4*(seq + past)`."""
        if self.symbol is not None:
            return write_name(self.symbol.name)
        above, below = _list_parts(self.coefficient, self.factors), _list_parts(self.divisor, self.divisors)
        if below == ["1"]:
            return "*".join(above)
        return f"{'*'.join(above)}/{below[0]}" if len(below) == 1 else f"{'*'.join(above)}/({'*'.join(below)})"

    @property
    def symbol(self) -> Symbol | None:
        """The symbol, if the expression is a single one; otherwise None."""
        is_single = self.coefficient == 1 and self.divisor == 1 and not self.divisors and len(self.factors) == 1
        return self.factors[0] if is_single else None


class Dim(NamedTuple):
    """A partially known dim.

    Attributes:
        bounds: its range.
        expression: its symbolic expression. None: it has no name.

    >>> (dim,) = client.infer_shape([(2, 8), 4], [-1], special_zero=False)
    >>> dim.bounds, str(dim)
    (Interval(min=8, max=32), '8..32')
    """

    bounds: Interval
    expression: Expression | None = None

    def __str__(self) -> str:
        """The dim in the usual notation: its name, or otherwise its bounds (`2..8`, `2..`)."""
        if self.expression is not None:
            return str(self.expression)
        return f"{self.bounds.min}..{'' if self.bounds.max is None else self.bounds.max}"


AnyDim: TypeAlias = int | Dim | None


def name_dim(name: str, low: int = 0, high: int | None = None) -> Dim:
    """Returns a named dim."""
    bounds = Interval(low, high)
    return Dim(bounds, Expression(1, (Symbol(name, bounds),)))


def make_dim(bounds: Interval, expression: Expression | None = None) -> AnyDim:
    """Returns the simplest dim with these bounds: a number if only one value is left."""
    # No dim exceeds MAX_DIM, so an upper end of MAX_DIM says nothing and is always written as None. An interval of only
    # MAX_DIM is a number like any other.
    low, high = bounds
    if high is not None and high >= MAX_DIM:
        high = high if low == high else None
    if low == high:
        return low
    if low == 0 and high is None and expression is None:
        return None
    return bound_dim(Interval(low, high), expression)


def bound_dim(bounds: Interval, expression: Expression | None) -> Dim:
    """Returns a dim with these bounds. If it is a single symbol, the symbol gets the same bounds."""
    # The dim and its symbol are the same. With different bounds, a message would merge them, and the decoded dim would
    # be narrower.
    symbol = None if expression is None else expression.symbol
    if symbol is not None and symbol.bounds != bounds:
        expression = Expression(1, (Symbol(symbol.name, bounds),))
    return Dim(bounds, expression)


def make_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression:
    """Returns an expression with ordered factors. Common factors must already be cancelled."""
    return Expression(coefficient, _sort(factors), divisor, _sort(divisors))


def make_legal_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression | None:
    """Returns the expression; None if it is too large."""
    if max(coefficient, divisor) > MAX_DIM or len(factors) + len(divisors) > MAX_FACTORS:
        return None
    return make_expression(coefficient, factors, divisor, divisors)


def _sort(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    # Ordered by name only: the order is part of the result, and bounds may be narrowed before.
    return tuple(symbols) if len(symbols) <= 1 else tuple(sorted(symbols, key=_find_order))


def find_bounds(dim: AnyDim) -> Interval:
    """Returns the range of a dim."""
    if dim is None:
        return ANY
    return Interval(dim, dim) if isinstance(dim, int) else dim.bounds


def are_known(dims: Sequence[AnyDim] | None) -> TypeGuard[Sequence[int]]:
    """Whether every dim is a number."""
    # Exactly int, because a bool is not a dim, and a subclass may compare in any way. No Python loop, because this is
    # on the fast path.
    return dims is not None and _INT.issuperset(map(type, dims))


def find_name(dim: AnyDim) -> str | None:
    """Returns the name of a dim that is a single symbol."""
    symbol = dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None
    return None if symbol is None else symbol.name


def format_dims(dims: Sequence[AnyDim] | None) -> str:
    """Returns a shape in the usual notation: `[N, 4*C, 2..8, ?]`; `[...]` if its rank is unknown."""
    if dims is None:
        return "[...]"
    return format_value([format_dim(dim) for dim in dims])


def format_dim(dim: AnyDim) -> str:
    """Returns a dim in the usual notation; `?` if nothing is known."""
    return "?" if dim is None else format_value(dim) if isinstance(dim, int) else str(dim)


def format_product(dims: Iterable[AnyDim]) -> str:
    """Returns a product of dims as text: a number if all are known, otherwise like `(2..8)*N*4`."""
    known, others = 1, []
    for dim in dims:
        if isinstance(dim, int):
            known *= dim
        else:
            name = find_name(dim)
            # In parentheses if it would read as more than one factor: (N/2)*4, but N*4.
            text = "?" if dim is None else f"({dim})"
            others.append(text if name is None else write_factor(name))
    if len(others) > _SHOWN_FACTORS:
        others[_SHOWN_FACTORS:] = ["..."]
    return "*".join([*others, format_value(known)] if known != 1 or not others else others)


def check_dims(dims: Sequence[int], field: str) -> Sequence[int]:
    """Returns `dims` if each is from 0 to 2^63 - 1.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE.
    """
    for index, dim in enumerate(dims):
        if not 0 <= dim <= MAX_DIM:
            raise _reject_range(dim, f"{field}[{index}]", index)
    return dims


def check_partial_dims(dims: Iterable[AnyDim], field: str) -> None:
    """Checks each dim.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE, INTERVAL_EMPTY or EXPRESSION_INVALID.
    """
    for index, dim in enumerate(dims):
        # Most dims are numbers or unknown, and need no function call.
        if dim is not None and not (type(dim) is int and 0 <= dim <= MAX_DIM):
            check_partial_dim(dim, f"{field}[{index}]", index)


def check_symbols(dims: Iterable[AnyDim]) -> None:
    """Checks the number of symbols of a query.

    Raises:
        InvalidRequestError: EXPRESSION_INVALID.
    """
    count = sum(
        len(dim.expression.factors) + len(dim.expression.divisors)
        for dim in dims
        if isinstance(dim, Dim) and dim.expression
    )
    if count > MAX_SYMBOLS:
        message = f"the query contains {count} symbols, counting repetitions; at most {MAX_SYMBOLS} are allowed"
        raise InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, count=count, limit=MAX_SYMBOLS)


def check_partial_dim(dim: int | Dim, path: str, index: int) -> None:
    """Checks one dim; see `check_partial_dims`."""
    if isinstance(dim, int):
        _check_bounds(Interval(dim, dim), path, index)
        return
    _check_bounds(dim.bounds, path, index)
    if dim.expression is not None:
        _check_expression(dim.expression, path, index)


def _check_bounds(bounds: Interval, path: str, index: int) -> None:
    low, high = bounds
    for value in (low,) if high is None else (low, high):
        if not 0 <= value <= MAX_DIM:
            raise _reject_range(value, path, index)
    if bounds.is_empty:
        message = f"{path} lies from {low} to {high}, which contains no value"
        raise InvalidRequestError.of(Reason.INTERVAL_EMPTY, message, path, index=index, min=low, max=high)


def hint_unknown(dim: object) -> str:
    """Returns what to write instead of -1, for an error message; empty for other values."""
    # Libraries write -1 for an unknown dim. Here it is rejected, because in a requested shape it has another meaning.
    return "; for an unknown dim, write None, or ? as text" if dim == -1 else ""


def _reject_range(value: int, path: str, index: int) -> InvalidRequestError:
    message = f"{path} is {format_value(value)}; a dim must be from 0 to 2^63 - 1{hint_unknown(value)}"
    return InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, path, index=index, value=value)


def _check_expression(expression: Expression, path: str, index: int) -> None:
    symbols = (*expression.factors, *expression.divisors)
    if len(symbols) > MAX_FACTORS or not symbols:
        raise reject_factors(len(symbols), path, index)
    if not all(is_name(symbol.name) for symbol in symbols):
        problem = f"names a symbol that is not of 1 to {MAX_SYMBOL_CHARACTERS} printable characters"
    elif not (1 <= expression.coefficient <= MAX_DIM and 1 <= expression.divisor <= MAX_DIM):
        problem = "has a coefficient or a divisor that does not lie from 1 to 2^63 - 1"
    else:
        for symbol in symbols:
            _check_bounds(symbol.bounds, path, index)
        return
    message = f"{path} {problem}"
    raise InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, path, index=index)


def reject_factors(count: int, path: str, index: int) -> InvalidRequestError:
    """Returns the error of an expression with too many symbols."""
    message = f"{path} has {count} symbols; an expression must have 1 to {MAX_FACTORS}"
    return InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, path, index=index)


def _find_order(symbol: Symbol) -> str:
    return symbol.name


def _list_parts(number: int, symbols: tuple[Symbol, ...]) -> list[str]:
    """Returns the factors of a product as text, at least one."""
    powers = Counter(symbol.name for symbol in symbols)
    parts = [write_factor(name) if power == 1 else f"{write_factor(name)}^{power}" for name, power in powers.items()]
    return [str(number), *parts] if number != 1 or not parts else parts
