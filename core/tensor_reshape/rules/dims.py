"""Dims that need not be known: an interval, a symbol, an expression of symbols, or nothing at all.

A dim is an `int`, a `Dim`, or None for one of which nothing is known.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, TypeGuard

from tensor_reshape.rules.errors import InvalidRequestError, Reason, format_value
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS, is_name, write_factor, write_name

MAX_FACTORS = 64
"""How many symbols an expression may have, one for each power: it is a product of dims, and no shape has more."""

MAX_SYMBOLS = 256
"""How many symbols the expressions of one question may have together, repetitions counted."""


class Interval(NamedTuple):
    """What an integer lies between, both included.

    Attributes:
        min: at least 0.
        max: None where nothing bounds it.

    >>> Interval(2, None).holds(8), Interval(2, 8).meet(Interval(4, None))
    (True, Interval(min=4, max=8))
    """

    min: int
    max: int | None

    def meet(self, other: "Interval") -> "Interval":
        """Returns what both admit; empty where `max < min`."""
        if self.max is None or other.max is None:
            high = self.max if other.max is None else other.max
        else:
            high = min(self.max, other.max)
        return Interval(max(self.min, other.min), high)

    def join(self, other: "Interval") -> "Interval":
        """Returns the least bounds that hold what either admits."""
        high = None if self.max is None or other.max is None else max(self.max, other.max)
        return Interval(min(self.min, other.min), high)

    @property
    def is_empty(self) -> bool:
        """Whether nothing lies between them."""
        return self.max is not None and self.max < self.min

    def holds(self, value: int) -> bool:
        """Whether `value` lies between them."""
        return self.min <= value and (self.max is None or value <= self.max)


ANY = Interval(0, None)
_INT = frozenset({int})
_SHOWN_FACTORS = 8


class Symbol(NamedTuple):
    """A name for a dim: the same name in one question is the same dim.

    Attributes:
        name: as the caller wrote it.
        bounds: what is known of it.

    >>> client.infer_shape([Symbol("batch"), 4], [-1], special_zero=False)
    InferredShape([4*batch])
    """

    name: str
    bounds: Interval = ANY


class Expression(NamedTuple):
    """What a dim is called: `coefficient * factors / (divisor * divisors)`, an exact division.

    Attributes:
        coefficient: at least 1.
        factors: in the order of their names, one for each power.
        divisor: at least 1.
        divisors: as the factors; they are not 0.

    >>> str(Expression(4, (Symbol("C"),), 2))
    '4*C/2'
    """

    coefficient: int
    factors: tuple[Symbol, ...]
    divisor: int = 1
    divisors: tuple[Symbol, ...] = ()

    def __str__(self) -> str:
        """The expression as people write it: `4*C`, `N^2/2`, `N/(2*M)`, `4*(seq + past)`."""
        if self.symbol is not None:
            return write_name(self.symbol.name)
        above, below = _list_parts(self.coefficient, self.factors), _list_parts(self.divisor, self.divisors)
        if below == ["1"]:
            return "*".join(above)
        return f"{'*'.join(above)}/{below[0]}" if len(below) == 1 else f"{'*'.join(above)}/({'*'.join(below)})"

    @property
    def symbol(self) -> Symbol | None:
        """The symbol that the expression is, None where it is more than one symbol."""
        alone = self.coefficient == 1 and self.divisor == 1 and not self.divisors and len(self.factors) == 1
        return self.factors[0] if alone else None


class Dim(NamedTuple):
    """A dim of which something is known.

    Attributes:
        bounds: what it lies between.
        expression: what it is called; None: it has no name.

    >>> (dim,) = client.infer_shape([(2, 8), 4], [-1], special_zero=False)
    >>> dim.bounds, str(dim)
    (Interval(min=8, max=32), '8..32')
    """

    bounds: Interval
    expression: Expression | None = None

    def __str__(self) -> str:
        """The dim as people write it: its name, else its bounds (`2..8`, `2..`)."""
        if self.expression is not None:
            return str(self.expression)
        return f"{self.bounds.min}..{'' if self.bounds.max is None else self.bounds.max}"


AnyDim: TypeAlias = int | Dim | None


def name_dim(name: str, low: int = 0, high: int | None = None) -> Dim:
    """Returns a dim with a name."""
    bounds = Interval(low, high)
    return Dim(bounds, Expression(1, (Symbol(name, bounds),)))


def make_dim(bounds: Interval, expression: Expression | None = None) -> AnyDim:
    """Returns the plainest dim with these bounds: a number where only one is left."""
    # No dim is above MAX_DIM, so as an end it says nothing, and None is the one way to write that. But MAX_DIM alone is
    # a number like any other.
    low, high = bounds
    if high is not None and high >= MAX_DIM:
        high = high if low == high else None
    if low == high:
        return low
    if low == 0 and high is None and expression is None:
        return None
    return bound_dim(Interval(low, high), expression)


def bound_dim(bounds: Interval, expression: Expression | None) -> Dim:
    """Returns a dim with these bounds; where it is one symbol, so is that."""
    # The dim and the symbol that it is are one: two bounds would travel as one on the wire, and come back narrower.
    symbol = None if expression is None else expression.symbol
    if symbol is not None and symbol.bounds != bounds:
        expression = Expression(1, (Symbol(symbol.name, bounds),))
    return Dim(bounds, expression)


def make_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression:
    """Returns the expression with its factors in order; what is to be cancelled has been."""
    return Expression(coefficient, _sort(factors), divisor, _sort(divisors))


def make_legal_expression(
    coefficient: int, factors: Sequence[Symbol], divisor: int = 1, divisors: Sequence[Symbol] = ()
) -> Expression | None:
    """Returns the expression, None for one that is larger than an expression may be."""
    if max(coefficient, divisor) > MAX_DIM or len(factors) + len(divisors) > MAX_FACTORS:
        return None
    return make_expression(coefficient, factors, divisor, divisors)


def _sort(symbols: Sequence[Symbol]) -> tuple[Symbol, ...]:
    # By name alone: the order is a part of the answer, and bounds may be narrowed on the way to it.
    return tuple(symbols) if len(symbols) <= 1 else tuple(sorted(symbols, key=_find_order))


def find_bounds(dim: AnyDim) -> Interval:
    """Returns what a dim lies between."""
    if dim is None:
        return ANY
    return Interval(dim, dim) if isinstance(dim, int) else dim.bounds


def are_known(dims: Sequence[AnyDim] | None) -> TypeGuard[Sequence[int]]:
    """Whether every dim is a number."""
    # Exactly int: a bool is none, and a subclass may compare as it likes. No loop of our own: this is on the fast path.
    return dims is not None and _INT.issuperset(map(type, dims))


def find_name(dim: AnyDim) -> str | None:
    """Returns the name of a dim that is one symbol."""
    symbol = dim.expression.symbol if isinstance(dim, Dim) and dim.expression is not None else None
    return None if symbol is None else symbol.name


def format_dims(dims: Sequence[AnyDim] | None) -> str:
    """Writes a shape as people do: `[N, 4*C, 2..8, ?]`; `[...]` for one whose rank is unknown."""
    if dims is None:
        return "[...]"
    return format_value([format_dim(dim) for dim in dims])


def format_dim(dim: AnyDim) -> str:
    """Writes one dim; `?` where nothing is known of it."""
    return "?" if dim is None else format_value(dim) if isinstance(dim, int) else str(dim)


def format_product(dims: Iterable[AnyDim]) -> str:
    """Writes the product of dims: a number where all are known, `(2..8)*N*4` else."""
    known, others = 1, []
    for dim in dims:
        if isinstance(dim, int):
            known *= dim
        else:
            name = find_name(dim)
            # In parentheses what would read as more than one factor: (N/2)*4, but N*4.
            text = "?" if dim is None else f"({dim})"
            others.append(text if name is None else write_factor(name))
    if len(others) > _SHOWN_FACTORS:
        others[_SHOWN_FACTORS:] = ["..."]
    return "*".join([*others, format_value(known)] if known != 1 or not others else others)


def check_dims(dims: Sequence[int], field: str) -> Sequence[int]:
    """Returns `dims` where each lies from 0 to 2^63 - 1.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE.
    """
    for index, dim in enumerate(dims):
        if not 0 <= dim <= MAX_DIM:
            raise _refuse_range(dim, f"{field}[{index}]", index)
    return dims


def check_partial_dims(dims: Iterable[AnyDim], field: str) -> None:
    """Checks each dim.

    Raises:
        InvalidRequestError: DIM_OUT_OF_RANGE, INTERVAL_EMPTY or EXPRESSION_INVALID.
    """
    for index, dim in enumerate(dims):
        # Most dims are numbers, or unknown: these cost no call.
        if dim is not None and not (type(dim) is int and 0 <= dim <= MAX_DIM):
            check_partial_dim(dim, f"{field}[{index}]", index)


def check_symbols(dims: Iterable[AnyDim]) -> None:
    """Checks that a question does not name more dims than it may.

    Raises:
        InvalidRequestError: EXPRESSION_INVALID.
    """
    count = sum(
        len(dim.expression.factors) + len(dim.expression.divisors)
        for dim in dims
        if isinstance(dim, Dim) and dim.expression
    )
    if count > MAX_SYMBOLS:
        message = f"the question names {count} dims, repetitions counted; it may name {MAX_SYMBOLS}"
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
            raise _refuse_range(value, path, index)
    if bounds.is_empty:
        message = f"{path} lies from {low} to {high}, which holds no dim"
        raise InvalidRequestError.of(Reason.INTERVAL_EMPTY, message, path, index=index, min=low, max=high)


def hint_unknown(dim: object) -> str:
    """Returns what to write in place of -1, to be added to a message; empty where there is none."""
    # Libraries write -1 for a dim of which nothing is known. Here it is no dim, since in a target it is an instruction.
    return "; write None, or ? as text, where nothing is known of it" if dim == -1 else ""


def _refuse_range(value: int, path: str, index: int) -> InvalidRequestError:
    message = f"{path} is {format_value(value)}; a dim lies from 0 to 2^63 - 1{hint_unknown(value)}"
    return InvalidRequestError.of(Reason.DIM_OUT_OF_RANGE, message, path, index=index, value=value)


def _check_expression(expression: Expression, path: str, index: int) -> None:
    symbols = (*expression.factors, *expression.divisors)
    if len(symbols) > MAX_FACTORS or not symbols:
        raise refuse_factors(len(symbols), path, index)
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


def refuse_factors(count: int, path: str, index: int) -> InvalidRequestError:
    """Returns the refusal of an expression of so many symbols."""
    message = f"{path} has {count} symbols; an expression has from 1 to {MAX_FACTORS}"
    return InvalidRequestError.of(Reason.EXPRESSION_INVALID, message, path, index=index)


def _find_order(symbol: Symbol) -> str:
    return symbol.name


def _list_parts(number: int, symbols: tuple[Symbol, ...]) -> list[str]:
    """Returns the factors of a product as they are written, at least one."""
    powers = Counter(symbol.name for symbol in symbols)
    parts = [write_factor(name) if power == 1 else f"{write_factor(name)}^{power}" for name, power in powers.items()]
    return [str(number), *parts] if number != 1 or not parts else parts
