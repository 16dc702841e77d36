"""Conditions are requirements of a reshape for its dims, in addition to the bounds that the query declares.

A condition compares products of dims. A dim without a name is called by its position, such as `data[0]` or `shape[2]`.
If a symbol of the query already has that name, an apostrophe is added to the position.

Invariant: concrete shapes that the operation accepts satisfy every condition.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from math import prod
from typing import NamedTuple

from tensor_reshape.rules.dims import AnyDim, Dim, Expression, Interval, Symbol, find_bounds, write_expression
from tensor_reshape.rules.names import write_factor, write_name

_POSITION = re.compile(r"(?:data|shape|expected_shape)\[[0-9]+\]'*")


class ConditionKind(Enum):
    """The kind of a condition, which is an equality, a divisibility or a range.

    >>> shape = client.infer_shape(["batch", 6], [4, -1], special_zero=False)
    >>> [condition.kind for condition in shape.conditions]
    [<ConditionKind.DIVIDES: 'divides'>]
    """

    EQUAL = "equal"
    """`left` and `right` are equal."""

    DIVIDES = "divides"
    """`left` divides `right`: `right` is a multiple of `left`."""

    RANGE = "range"
    """`left` is at least `min` and at most `max`."""


class Condition(NamedTuple):
    """A requirement that every accepted instance of a query satisfies.

    Attributes:
        kind: the relation.
        left: a product of dimensions, which may be only a number. If the condition is a range, this product may also
            have divisors.
        right: the product that is compared with `left`. None means that the condition is a range.
        min: the lower end of a range. None means that the range has no lower end.
        max: the upper end of a range. None means that the range has no upper end.
        unless_zero: a product of dimensions. If this product is 0, the tensor is empty, and the condition does not
            apply. None means that the condition always applies.
        rule: the number of the rule that requires the condition. The docstring of `tensor_reshape.rules` lists the
            rules.
        item: the part of the query that requires the condition, such as `shape[1]`.

    >>> shape = client.infer_shape(["batch", 16, 4, 4], [1, 256], special_zero=False)
    >>> (condition,) = shape.conditions
    >>> print(condition, condition.rule, condition.item)
    batch = 1 4 shape
    """

    kind: ConditionKind
    left: Expression
    right: Expression | None = None
    min: int | None = None
    max: int | None = None
    unless_zero: Expression | None = None
    rule: int = 4
    item: str = ""

    def __str__(self) -> str:
        """The condition as text: `batch = 1`, `2 divides b`, `N >= 1`, `N = M unless C = 0`."""
        left = write_product(self.left)
        if self.kind is ConditionKind.RANGE or self.right is None:
            text = f"{left} >= {self.min}" if self.max is None else f"{left} <= {self.max}"
            if self.min is not None and self.max is not None:
                text = f"{self.min} <= {text}"
        else:
            relation = "=" if self.kind is ConditionKind.EQUAL else "divides"
            text = f"{left} {relation} {write_product(self.right)}"
        return text if self.unless_zero is None else f"{text} unless {write_product(self.unless_zero)} = 0"

    @property
    def unless_empty(self) -> bool:
        """Whether the condition applies only to tensors with elements."""
        return self.unless_zero is not None

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the dimensions in the condition."""
        return frozenset(symbol.name for symbol in self.list_symbols())

    def list_symbols(self) -> Iterator[Symbol]:
        """Yields the symbols in the condition. A symbol may occur several times."""
        for product in (self.left, self.right, self.unless_zero):
            if product is not None:
                yield from product.symbols

    def holds(self, values: Mapping[str, int]) -> bool:
        """Whether the given values of the dimensions satisfy the condition. Each dimension must have a value."""
        if self.unless_zero is not None and _multiply(self.unless_zero, values)[0] == 0:
            return True
        above, below = _multiply(self.left, values)
        if self.right is None:
            is_low = self.min is not None and above < self.min * below
            return not is_low and (self.max is None or above <= self.max * below)
        other = _multiply(self.right, values)[0]
        if self.kind is ConditionKind.EQUAL:
            return above == other
        return other == 0 if above == 0 else other % above == 0


def write_product(product: Expression) -> str:
    """Returns a product as text. Positions such as `data[0]` are written without quotes."""
    return write_expression(product, partial(_write, write_name), partial(_write, write_factor))


def _write(write: Callable[[str], str], name: str) -> str:
    return name if _POSITION.fullmatch(name) else write(name)


def name_position(field: str, index: int, names: frozenset[str] | set[str]) -> str:
    """Returns a name for a dim that has no name in the query, such as `data[0]`.

    Args:
        field: the part of the query, which is "data", "shape" or "expected_shape".
        index: the index of the dim.
        names: the names that are already used in the query.
    """
    name = f"{field}[{index}]"
    while name in names:
        name += "'"
    return name


def _multiply(product: Expression, values: Mapping[str, int]) -> tuple[int, int]:
    """Returns the numerator and the denominator of a product."""
    return (
        product.coefficient * prod([values[symbol.name] for symbol in product.factors]),
        product.divisor * prod([values[symbol.name] for symbol in product.divisors]),
    )


def list_declared(
    data: Sequence[AnyDim] | None, target: Sequence[AnyDim] | None, expected: Sequence[AnyDim] | None
) -> dict[str, Interval]:
    """Returns a mapping from names and positions of dims to the bounds that a query declares for these dims."""
    sides = (("data", data or ()), ("shape", target or ()), ("", expected or ()))
    declared: dict[str, Interval] = {}
    for _, dims in sides:
        for dim in dims:
            _declare_symbols(dim, declared)
    names = {*declared}
    for field, dims in sides:
        for index, dim in enumerate(dims):
            is_dim = isinstance(dim, Dim) and dim.expression is None
            if field and (is_dim or (dim is None and field == "data")):
                declared[name_position(field, index, names)] = find_bounds(dim)
    return declared


def _declare_symbols(dim: AnyDim, declared: dict[str, Interval]) -> None:
    expression = dim.expression if isinstance(dim, Dim) else None
    if expression is not None and isinstance(dim, Dim):
        for symbol in expression.symbols:
            own = symbol.bounds if expression.symbol is None else symbol.bounds.meet(dim.bounds)
            declared[symbol.name] = declared.get(symbol.name, own).meet(own)
        for symbol in expression.divisors:  # a divisor is never 0
            declared[symbol.name] = declared[symbol.name].meet(Interval(1, None))
