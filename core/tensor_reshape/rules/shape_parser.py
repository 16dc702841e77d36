"""Parses shapes as people type and paste them: `2,3,-1`, `[N, 4, 2..8]`, `(2, 3)`, `...`.

A shape is a list of dims in the notation of `rules.notation`, separated by commas. If all dims are numbers, an `x` may
separate them, as in `2x3x4`. An empty text is the shape of a scalar. The texts `...` and `unknown` mean a shape of
unknown rank. The whole shape may be enclosed in brackets or parentheses.

Invariants: for each item, the parser returns the positions `start` and `end` of the item's text in the input. The text
of an item neither begins nor ends with a space. A comma in parentheses or quotes does not separate items.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.notation import parse_dim

Item = TypeVar("Item")

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
        InvalidRequestError: DIM_SYNTAX_INVALID, if an item is not a valid dim.
    """
    items = split_items(text)
    return None if items is None else _parse_all(items, parse_dim, field)


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
    """Yields the position of each comma and parenthesis, and the depth of parentheses after it.

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


def _parse_all(items: tuple[ShapeItem, ...], parse: Callable[[str], Item], field: str) -> tuple[Item, ...]:
    return tuple([_parse_item(item.text, parse, f"{field}[{index}]", index) for index, item in enumerate(items)])


def _parse_item(text: str, parse: Callable[[str], Item], path: str, index: int) -> Item:
    try:
        return parse(text)
    except InvalidRequestError as error:
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, error.message, path, index=index, value=text) from None
