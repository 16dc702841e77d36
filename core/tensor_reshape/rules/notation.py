"""Dims as people write them: `4`, `2..8`, `2..`, `?`, `N`, `N:1..8`, `4*C`, `N^2/(2*M)`."""

import re

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression
from tensor_reshape.rules.errors import InvalidRequestError, Reason

_INTERVAL = re.compile(r"(\d+)\.\.(\d*)")
_NAME = re.compile(r"([^\W\d]\w*)(?:\^([1-9]\d?))?")
_MAX_CHARACTERS = 4096


def parse_dim(text: str) -> AnyDim:
    """Reads one dim.

    Raises:
        InvalidRequestError: DIM_UNREADABLE.
    """
    plain = text.strip()
    if len(plain) > _MAX_CHARACTERS:
        raise _refuse(text)
    if plain == "?":
        return None
    if re.fullmatch(r"-?[0-9]{1,40}", plain):
        return int(plain)
    name, colon, bounds = plain.partition(":")
    if not colon and _INTERVAL.fullmatch(plain):
        return Dim(_read_bounds(plain, text))
    return _read_expression(name, _read_bounds(bounds, text) if colon else ANY, text)


def _read_bounds(plain: str, text: str) -> Interval:
    match = _INTERVAL.fullmatch(plain.strip())
    if match is None:
        raise _refuse(text)
    return Interval(int(match[1]), int(match[2]) if match[2] else None)


def _read_expression(plain: str, bounds: Interval, text: str) -> Dim:
    above, slash, below = plain.partition("/")
    coefficient, factors = _read_product(above, text)
    divisor, divisors = _read_product(_strip_parentheses(below.strip()), text) if slash else (1, [])
    expression = make_expression(coefficient, factors, divisor, divisors)
    if not (factors or divisors) or not divisor:
        raise _refuse(text)
    if expression.symbol is not None:
        expression = make_expression(1, [Symbol(expression.symbol.name, bounds)])
    return Dim(bounds, expression)


def _strip_parentheses(plain: str) -> str:
    return plain[1:-1] if plain.startswith("(") and plain.endswith(")") else plain


def _read_product(plain: str, text: str) -> tuple[int, list[Symbol]]:
    number, symbols = 1, list[Symbol]()
    for part in plain.split("*"):
        piece = part.strip()
        match = _NAME.fullmatch(piece)
        if match is not None:
            symbols += [Symbol(match[1])] * int(match[2] or 1)
        elif re.fullmatch(r"[0-9]{1,40}", piece):
            number *= int(piece)
        else:
            raise _refuse(text)
    return number, symbols


def _refuse(text: str) -> InvalidRequestError:
    message = f"{text!r} is no dim: a number, lo..hi, lo.., ?, a name, name:lo..hi, or a product such as 4*C or N/2"
    return InvalidRequestError.of(Reason.DIM_UNREADABLE, message, value=text)
