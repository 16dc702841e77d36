"""A dim may be partially known: it may be an interval, a symbol, an expression of symbols, or unknown.

In Python, a dim is an `int`, a `Dim`, or None if nothing is known.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from operator import attrgetter
from typing import NamedTuple, TypeAlias, TypeGuard

from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS, is_name, write_factor, write_name
from tensor_reshape.rules.products import Product

MAX_FACTORS = 64
"""The largest number of symbols in an expression. `N^2` counts as two symbols. An expression is a product of dims, and
a shape has at most this number of dims.
"""

MAX_SYMBOLS = 256
"""The largest number of symbols in all expressions of one query. A repeated symbol counts each time."""


class Interval(NamedTuple):
    """A range of integers, including both ends.

    Attributes:
        min: the lower end, at least 0.
        max: the upper end. None means that the range has no upper end.

    >>> Interval(2, None).holds(8), Interval(2, 8).meet(Interval(4, None))
    (True, Interval(min=4, max=8))
    """

    min: int
    max: int | None

    def meet(self, other: "Interval") -> "Interval":
        """Returns the intersection of two intervals. An intersection whose `max` is below its `min` is empty."""
        if self.max is None or other.max is None:
            high = self.max if other.max is None else other.max
        else:
            high = min(self.max, other.max)
        return Interval(max(self.min, other.min), high)

    def join(self, other: "Interval") -> "Interval":
        """Returns the smallest interval that contains both intervals."""
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
    """A named dimension. If two dimensions of a query have the same name, they have the same value.

    Attributes:
        name: the name in the spelling of the caller.
        bounds: the range of the symbol.

    >>> client.infer_shape([Symbol("batch"), 4], [-1], special_zero=False)
    InferredShape([4*batch])
    """

    name: str
    bounds: Interval = ANY


class Expression(Product[Symbol]):
    """The expression `coefficient * product(factors) / (divisor * product(divisors))`, whose value is an integer.

    Attributes:
        coefficient: the numeric factor, at least 1.
        factors: the symbols that are multiplied, ordered by name. A symbol that is squared occurs twice.
        divisor: the numeric divisor, at least 1.
        divisors: the symbols in the divisor, in the same form as `factors`. The values of these symbols are never 0.

    >>> str(Expression(4, (Symbol("C"),), 2))
    '4*C/2'
    """

    __slots__ = ()

    # `Product` already has these fields. Tools that inspect the class at run time read the types of the fields here.
    factors: tuple[Symbol, ...]
    divisors: tuple[Symbol, ...]

    def __str__(self) -> str:
        """Returns the expression in the usual notation: `4*C`, `N^2/2`, `N/(2*M)`, `4*(seq + past)`."""
        return write_expression(self)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbols in all factors and divisors. A symbol may occur several times."""
        return (*self.factors, *self.divisors)

    @property
    def symbol(self) -> Symbol | None:
        """The only symbol of the expression, if the expression consists of a single symbol; otherwise None."""
        is_single = self.coefficient == 1 and self.divisor == 1 and not self.divisors and len(self.factors) == 1
        return self.factors[0] if is_single else None

    def evaluate(self, values: Mapping[str, int]) -> int | None:
        """Returns the value of the expression for these values of its names, or None if it is not a whole number."""
        above = self.coefficient * prod(values[symbol.name] for symbol in self.factors)
        below = self.divisor * prod(values[symbol.name] for symbol in self.divisors)
        return above // below if below and above % below == 0 else None


class Dim(NamedTuple):
    """A partially known dimension.

    Attributes:
        bounds: the range of the dimension.
        expression: the symbolic expression of the dimension. None means that the dimension has no name.

    >>> (dim,) = client.infer_shape([(2, 8), 4], [-1], special_zero=False)
    >>> dim.bounds, str(dim)
    (Interval(min=8, max=32), '8..32')
    """

    bounds: Interval
    expression: Expression | None = None

    @property
    def is_product(self) -> bool:
        """Whether the dimension has an expression that is not a single symbol."""
        return self.expression is not None and self.expression.symbol is None

    def __str__(self) -> str:
        """Returns the dimension in the usual notation: its name, or its bounds if it has no name (`2..8`, `2..`)."""
        if self.expression is not None:
            return str(self.expression)
        return f"{self.bounds.min}..{'' if self.bounds.max is None else self.bounds.max}"


AnyDim: TypeAlias = int | Dim | None


def name_dim(name: str, low: int = 0, high: int | None = None) -> Dim:
    """Returns a dim that has both a name and bounds."""
    bounds = Interval(low, high)
    return Dim(bounds, Expression(1, (Symbol(name, bounds),)))


def make_dim(bounds: Interval, expression: Expression | None = None) -> AnyDim:
    """Returns the simplest dim with these bounds: a number if the bounds allow only one value."""
    # No dim exceeds MAX_DIM, so an upper bound of MAX_DIM adds no information and is always stored as None. If the
    # lower and the upper bound are both MAX_DIM, the dim is a number like any other.
    low, high = bounds
    if high is not None and high >= MAX_DIM:
        high = high if low == high else None
    if low == high:
        return low
    if low == 0 and high is None and expression is None:
        return None
    return bound_dim(Interval(low, high), expression)


def bound_dim(bounds: Interval, expression: Expression | None) -> Dim:
    """Returns a dim with these bounds. If the expression is a single symbol, the symbol gets the same bounds."""
    # A dim that is a single symbol has the same value as the symbol, and a message has only one field for the bounds of
    # both. If the bounds of the dim and its symbol differed, the encoder would send the intersection, and the decoded
    # dim would differ from the sent dim.
    symbol = None if expression is None else expression.symbol
    if symbol is not None and symbol.bounds != bounds:
        expression = Expression(1, (Symbol(symbol.name, bounds),))
    return Dim(bounds, expression)


def make_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression:
    """Returns an expression, with its symbols ordered by name. The caller has already cancelled common factors."""
    return Expression(coefficient, _sort(factors), divisor, _sort(divisors))


def make_legal_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression | None:
    """Returns the expression; None if a number exceeds MAX_DIM, or if there are more than MAX_FACTORS symbols."""
    if max(coefficient, divisor) > MAX_DIM or len(factors) + len(divisors) > MAX_FACTORS:
        return None
    return make_expression(coefficient, factors, divisor, divisors)


def _sort(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    # The order of the symbols depends only on their names. If the order depended on bounds as well, narrowed bounds
    # would change the order in the result.
    return tuple(symbols) if len(symbols) <= 1 else tuple(sorted(symbols, key=attrgetter("name")))


def find_bounds(dim: AnyDim) -> Interval:
    """Returns the range of a dim."""
    if dim is None:
        return ANY
    return Interval(dim, dim) if isinstance(dim, int) else dim.bounds


def are_known(dims: Sequence[AnyDim] | None) -> TypeGuard[Sequence[int]]:
    """Whether every dim of a shape is a number."""
    # Only dims of the exact type int are accepted. A bool is not a dim, and a subclass of int may define comparisons
    # differently. Every query calls this function, so the function uses no Python loop, which would be slower.
    return dims is not None and _INT.issuperset(map(type, dims))


def read_unknown(dims: tuple[AnyDim, ...] | None) -> tuple[AnyDim, ...] | None:
    """Returns an input or output shape with None instead of each -1. In a requested shape, -1 has another meaning."""
    return tuple([None if dim == -1 else dim for dim in dims]) if dims is not None and -1 in dims else dims


def find_symbol(dim: AnyDim) -> Symbol | None:
    """Returns the symbol of a dim that is a single symbol; None for any other dim."""
    return dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None


def find_name(dim: AnyDim) -> str | None:
    """Returns the name of a dim that is a single symbol; None for any other dim."""
    symbol = find_symbol(dim)
    return None if symbol is None else symbol.name


def format_dims(dims: Sequence[AnyDim] | None) -> str:
    """Returns a shape in the usual notation: `[N, 4*C, 2..8, ?]`, or `[...]` if its rank is unknown."""
    if dims is None:
        return "[...]"
    return format_value([format_dim(dim) for dim in dims])


def format_dim(dim: AnyDim) -> str:
    """Returns a dim in the usual notation; `?` if nothing is known about the dim."""
    return "?" if dim is None else format_value(dim) if isinstance(dim, int) else str(dim)


def format_product(dims: Iterable[AnyDim]) -> str:
    """Returns a product of dims as text: a number if all dims are known, otherwise a text such as `(2..8)*N*4`."""
    known, others = 1, []
    for dim in dims:
        if isinstance(dim, int):
            known *= dim
        else:
            name = find_name(dim)
            # In a product, a dim is written in parentheses unless its text is a single factor: (N/2)*4, but N*4.
            text = "?" if dim is None else f"({dim})"
            others.append(text if name is None else write_factor(name))
    if len(others) > _SHOWN_FACTORS:
        others[_SHOWN_FACTORS:] = ["..."]
    return "*".join([*others, format_value(known)] if known != 1 or not others else others)


def check_dims(dims: Sequence[int], field: str) -> Sequence[int]:
    """Returns `dims` if each of them is from 0 to 2^63 - 1.

    Raises:
        InvalidRequestError: the reason is DIM_OUT_OF_RANGE.
    """
    for index, dim in enumerate(dims):
        if not 0 <= dim <= MAX_DIM:
            raise _reject_range(dim, f"{field}[{index}]", index)
    return dims


def check_partial_dims(dims: Iterable[AnyDim], field: str) -> None:
    """Checks the dims of a shape, which may be partially known.

    Raises:
        InvalidRequestError: the reason is DIM_OUT_OF_RANGE, INTERVAL_EMPTY or EXPRESSION_INVALID.
    """
    for index, dim in enumerate(dims):
        # Most dims are valid numbers or None. Such simple dims are checked here, without a function call.
        if dim is not None and not (type(dim) is int and 0 <= dim <= MAX_DIM):
            check_partial_dim(dim, f"{field}[{index}]", index)


def check_symbols(dims: Iterable[AnyDim]) -> None:
    """Checks that a query does not have too many symbols.

    Raises:
        InvalidRequestError: the reason is EXPRESSION_INVALID.
    """
    count = sum(len(dim.expression.symbols) for dim in dims if isinstance(dim, Dim) and dim.expression)
    if count > MAX_SYMBOLS:
        message = f"the query contains {count} symbols, counting repetitions; at most {MAX_SYMBOLS} are allowed"
        raise InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, count=count, limit=MAX_SYMBOLS)


def check_partial_dim(dim: int | Dim, path: str, index: int) -> None:
    """Checks one dim and raises the errors that `check_partial_dims` lists."""
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


def _reject_range(value: int, path: str, index: int) -> InvalidRequestError:
    message = f"{path} is {format_value(value)}; a dimension must be from 0 to 2^63 - 1"
    return InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, path, index=index, value=value)


def _check_expression(expression: Expression, path: str, index: int) -> None:
    symbols = expression.symbols
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
    raise InvalidRequestError.of(Reason.EXPRESSION_INVALID, f"{path} {problem}", path, index=index)


def reject_factors(count: int, path: str, index: int) -> InvalidRequestError:
    """Returns the error of an expression with too many symbols."""
    message = f"{path} has {count} symbols; an expression must have 1 to {MAX_FACTORS}"
    return InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, path, index=index)


def write_expression(
    expression: Expression, write_single: Callable[[str], str] = write_name, write: Callable[[str], str] = write_factor
) -> str:
    """Returns an expression as text.

    Args:
        expression: the expression.
        write_single: the function that writes the name of an expression that consists of a single symbol.
        write: the function that writes the name of a factor.
    """
    if expression.symbol is not None:
        return write_single(expression.symbol.name)
    above = _list_parts(expression.coefficient, expression.factors, write)
    below = _list_parts(expression.divisor, expression.divisors, write)
    if below == ["1"]:
        return "*".join(above)
    return f"{'*'.join(above)}/{below[0]}" if len(below) == 1 else f"{'*'.join(above)}/({'*'.join(below)})"


def _list_parts(number: int, symbols: tuple[Symbol, ...], write: Callable[[str], str]) -> list[str]:
    """Returns the factors of a product as texts. The list is never empty, because an empty product is written as 1."""
    powers = Counter(symbol.name for symbol in symbols)
    parts = [write(name) if power == 1 else f"{write(name)}^{power}" for name, power in powers.items()]
    return [str(number), *parts] if number != 1 or not parts else parts
