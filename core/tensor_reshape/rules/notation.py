"""Reads dims and shapes as people type and paste them: `2,3,-1`, `[N, 4, 2..8]`, `(2, 3)`, `...`.

    dim       "?" | number | bounds | product | product ":" bounds
    bounds    number ".." [number]
    product   factors with "*" and "/" between them, from left to right; it contains a name
    factor    number | name | call | "(" product ")" | "(" formula ")"; after a name "^" power or "**" power
    name      word | "'" any text, with each quote in it doubled "'"
    call      word "(" formulas with commas between them ")": a name, kept as it is
    word      letters, digits and underscores, not beginning with a digit; "." and "::" between two of them
    formula   words, numbers, calls and parentheses, with + - * / // % ** between them: a name, kept as it is

`4*C` and `N^2/(2*M)` are products of dims, so the rules can calculate with them. `seq + past`, `floor(height/8)` and
`Max(1, N)` are treated as names, like `input.1_dynamic_axes_2` and `onnx::Reshape_12_dim_0`. A formula that is the
whole dim needs no parentheses. A formula in a product needs parentheses: `4*(seq + past)`.

A shape is a list of dims, separated by commas. If all dims are numbers, an `x` may separate them, as in `2x3x4`. An
empty text is the shape of a scalar. The texts `...` and `unknown` mean a shape of unknown rank. The whole shape may be
enclosed in brackets or parentheses.

Invariants:

- If `rules.dims` writes a dim as text, the parser reads the same dim from this text, whatever names the dim has. Text
  that is not a dim is rejected.
- For each item, the parser returns the positions `start` and `end` of the item's text in the input. The text of an item
  neither begins nor ends with a space. A comma in parentheses or quotes does not separate items.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.names import read_product

_INTERVAL = re.compile(r"(\d+)\.\.(\d*)")
_BOUNDED = re.compile(r"(.*):\s*((?:\d+)\.\.(?:\d*))", re.DOTALL)
_MAX_CHARACTERS = 4096


def parse_dim(text: str) -> AnyDim:
    """Parses one dim.

    Raises:
        InvalidRequestError: the reason is DIM_SYNTAX_INVALID.
    """
    plain = text.strip()
    if len(plain) > _MAX_CHARACTERS:
        raise _reject(text)
    if plain == "?":
        return None
    if re.fullmatch(r"-?[0-9]{1,40}", plain):
        return int(plain)
    if _INTERVAL.fullmatch(plain):
        return Dim(_read_bounds(plain))
    bounded = _BOUNDED.fullmatch(plain)
    return _read_named(bounded[1], _read_bounds(bounded[2]), text) if bounded else _read_named(plain, ANY, text)


def _read_bounds(plain: str) -> Interval:
    low, _, high = plain.partition("..")
    return Interval(int(low), int(high) if high else None)


def _read_named(plain: str, bounds: Interval, text: str) -> Dim:
    product = read_product(plain)
    if product is None or not (product.factors or product.divisors) or not product.divisor:
        raise _reject(text)
    expression = make_expression(*product.map_factors(Symbol))
    if expression.symbol is not None:
        expression = make_expression(1, [Symbol(expression.symbol.name, bounds)])
    return Dim(bounds, expression)


def _reject(text: str) -> InvalidRequestError:
    message = (
        f"{text!r} is not a valid dimension: write a number, lo..hi, lo.., ?, a name, name:lo..hi, or a product such "
        "as 4*C or N/2; put any other name in quotes: 'my dim'"
    )
    return InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, message, value=text)


_UNKNOWN = frozenset({"...", "unknown"})
_CLOSING = {"[": "]", "(": ")"}
_NUMBERS = re.compile(r"-?[0-9]+(?:\s*x\s*-?[0-9]+)+")
_PIECE = re.compile(r"'[^']*'|[(),]")


class ShapeItem(NamedTuple):
    """One item in the text of a shape.

    Attributes:
        text: the text of the item, without spaces at its ends.
        start: the position of the item's first character in the input.
        end: the position after the item's last character.
    """

    text: str
    start: int
    end: int


def parse_shape(text: str, field: str) -> tuple[AnyDim, ...] | None:
    """Parses a shape. The result is None if not even the rank is known.

    Args:
        text: the text of the shape.
        field: the name of the shape in errors. In errors, an item is called `field[index]`.

    Raises:
        InvalidRequestError: the reason is DIM_SYNTAX_INVALID if an item is not a valid dim.
    """
    items = split_items(text)
    if items is None:
        return None
    dims = list[AnyDim]()
    for index, item in enumerate(items):
        try:
            dims.append(parse_dim(item.text))
        except InvalidRequestError as error:
            reason, path = Reason.DIM_SYNTAX_INVALID, f"{field}[{index}]"
            raise InvalidRequestError.of(reason, error.message, path, index=index, value=item.text) from None
    return tuple(dims)


def split_items(text: str) -> tuple[ShapeItem, ...] | None:
    """Returns the items of a shape, without checking them; None if the text means a shape of unknown rank."""
    whole = _trim(text, 0, len(text))
    inner = _open_brackets(text, whole)
    if inner.text in _UNKNOWN:
        return None
    # An empty text is the shape of a scalar and has no items. For an empty text, `_split` would return one empty item.
    items = tuple(_split(text, inner)) if inner.text else ()
    # Python writes a tuple of one item as `(3,)`. If a text without parentheses ends with a comma, the text is
    # incomplete and therefore rejected.
    return items[:-1] if len(items) == 2 and not items[1].text and whole.text.startswith("(") else items  # noqa: PLR2004 - the item and an empty one


def _trim(text: str, start: int, end: int) -> ShapeItem:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    plain = piece.strip()
    return ShapeItem(plain, start, start + len(plain))


def _open_brackets(text: str, whole: ShapeItem) -> ShapeItem:
    """Returns the text within the outer brackets, or the whole text if it has no outer brackets."""
    opening, closing = whole.text[:1], whole.text[-1:]
    if len(whole.text) < 2 or _CLOSING.get(opening) != closing:  # noqa: PLR2004 - a pair of brackets
        return whole
    inner = _trim(text, whole.start + 1, whole.end - 1)
    # Parentheses may also belong to a single dim, as in `(N*M)` and `(A*B)/(C*D)`. If parentheses enclose a whole
    # shape, they contain a separator, or no text.
    depths = [depth for _, depth in _find_depths(inner.text)]
    is_shape = ("," in inner.text and min(depths) >= 0) or _NUMBERS.fullmatch(inner.text) is not None
    return inner if opening == "[" or not inner.text or is_shape else whole


def _find_depths(text: str) -> Iterator[tuple[int, int]]:
    """Yields the position of each comma and parenthesis, and the number of parentheses that are open after it.

    Quoted text is skipped, because it is a name.
    """
    depth = 0
    for match in _PIECE.finditer(text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        yield match.start(), depth


def _split(text: str, inner: ShapeItem) -> Iterator[ShapeItem]:
    start = inner.start
    for place in _find_separators(inner.text):
        yield _trim(text, start, inner.start + place)
        start = inner.start + place + 1
    yield _trim(text, start, inner.end)


def _find_separators(text: str) -> Iterator[int]:
    """Yields the position of each separator between items."""
    if _NUMBERS.fullmatch(text):
        yield from (match.start() for match in re.finditer("x", text))
    else:
        yield from (place for place, depth in _find_depths(text) if text[place] == "," and depth <= 0)
