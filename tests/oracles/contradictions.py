"""Reads the text of a contradiction, and searches for values that satisfy all of it."""

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod

from tensor_reshape.rules.dims import ANY, Dim, Expression, Interval
from tensor_reshape.rules.notation import parse_dim

_POSITION = re.compile(r"(data|shape|expected_shape)\[(\d+)\]")
_PARTS = re.compile(r"(.+?) (is|divides|=|<=|>=) (.+?)(?: <= (.+?))?(?: unless (.+) = 0)?")
_CAP = 24  # the number of values that are tried for a name
_BUDGET = 20_000  # the number of values of all names together


def find_solution(text: str) -> dict[str, int] | None:
    """Returns values that satisfy all conditions and declarations of a text; None if no tried values do."""
    facts = [fact for part in _POSITION.sub(r"\1_\2", text).split(", but ") for fact in part.split(", ")]
    names = sorted({name for fact in facts for name in _list_names(fact)})
    declared = dict(fact.split(" is ") for fact in facts if " is " in fact)
    bounds = {name: _read_bounds(declared.get(name, "0..")) for name in names}
    width = _CAP
    while prod(len(_list_values(own, width)) for own in bounds.values()) > _BUDGET:
        width -= 1
    for row in product(*(_list_values(own, width) for own in bounds.values())):
        values = dict(zip(names, row, strict=True))
        if all(_holds(fact, values) for fact in facts):
            return values
    return None


def _list_values(bounds: Interval, width: int) -> range:
    high = bounds.min + width
    return range(bounds.min, 1 + (high if bounds.max is None else min(bounds.max, high)))


@lru_cache
def _split(fact: str) -> tuple[str, ...]:
    parts = _PARTS.fullmatch(fact)
    assert parts is not None, fact
    return parts.groups("")


@lru_cache
def _read_product(text: str) -> Expression:
    dim = parse_dim(text)
    if isinstance(dim, Dim) and dim.expression is not None:
        return dim.expression
    assert isinstance(dim, int), text
    return Expression(dim, ())


def _read_bounds(text: str) -> Interval:
    dim = None if text == "an integer" else parse_dim(text)
    if isinstance(dim, Dim):
        return dim.bounds
    return ANY if dim is None else Interval(dim, dim)


def _list_names(fact: str) -> set[str]:
    left, verb, right, most, exception = _split(fact)
    products = [part for part in (left, "" if verb == "is" else right, most, exception) if part]
    return {symbol.name for part in products for symbol in _read_product(part).symbols}


def _divide(text: str, values: Mapping[str, int]) -> Fraction | None:
    """Returns the value of a product, or None if its divisor is 0."""
    above, factors, below, divisors = _read_product(text)
    below *= prod([values[symbol.name] for symbol in divisors])
    return Fraction(above * prod([values[symbol.name] for symbol in factors]), below) if below else None


def _holds(fact: str, values: Mapping[str, int]) -> bool:
    left, verb, right, most, exception = _split(fact)
    if exception and _divide(exception, values) == 0:
        return True
    value = _divide(left, values)
    if verb == "is":
        return value is not None and value.denominator == 1 and _read_bounds(right).holds(int(value))
    other, limit = _divide(right, values), _divide(most, values) if most else None
    if value is None or other is None:
        return False
    relations = {
        "divides": other == 0 if value == 0 else other % value == 0,
        "=": value == other,
        ">=": value >= other,
        "<=": value <= other and (limit is None or other <= limit),
    }
    return relations[verb]
