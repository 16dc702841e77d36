"""Shapes as people type and paste them: `2,3,-1`, `[N, 4, 2..8]`, `(2, 3)`, `...`; each item knows its place.

A shape is dims with commas between them, in the notation of `rules.notation`. Nothing at all is a scalar's shape, `...`
and `unknown` are a shape of which nothing is known. Brackets around the whole may be there, as programs print them.

Laws: the text of an item is `text[start:end]` of what was typed, without the blanks around it; a comma in parentheses
or in quotes ends no item.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim

Item = TypeVar("Item")

_UNKNOWN = frozenset({"...", "unknown"})
_CLOSING = {"[": "]", "(": ")"}
_PIECE = re.compile(r"'[^']*'|[(),]")
_STRIDE = re.compile(r"-?[0-9]{1,40}")


class TypedItem(NamedTuple):
    """One item of a shape.

    Attributes:
        text: without the blanks around it.
        start: where it begins in what was typed.
        end: where it ends, its last character excluded.
    """

    text: str
    start: int
    end: int


def parse_shape(text: str, field: str) -> tuple[AnyDim, ...] | None:
    """Reads a shape; None: nothing is known of it, not even the rank.

    Args:
        text: as it was typed.
        field: what a refusal calls it; an item of it is `field[index]`.

    Raises:
        InvalidRequestError: DIM_SYNTAX_INVALID, of an item.
    """
    items = split_items(text)
    return None if items is None else _parse_all(items, parse_dim, field)


def parse_strides(text: str, field: str) -> tuple[int, ...]:
    """Reads strides, which are numbers.

    Raises:
        InvalidRequestError: DIM_SYNTAX_INVALID, of an item of `field`.
    """
    items = split_items(text)
    # `...` is a shape, and no strides.
    return _parse_all((_trim(text, 0, len(text)),) if items is None else items, _parse_stride, field)


def split_items(text: str) -> tuple[TypedItem, ...] | None:
    """Returns the items of a shape, readable or not; None: nothing is known of it."""
    whole = _trim(text, 0, len(text))
    inner = _open_brackets(text, whole)
    if inner.text in _UNKNOWN:
        return None
    # Split, nothing at all would be one empty item, not the shape of a scalar.
    items = tuple(_split(text, inner)) if inner.text else ()
    # Python writes a tuple of one as `(3,)`; without the brackets, what ends with a comma was not finished.
    return items[:-1] if len(items) == 2 and not items[1].text and whole.text.startswith("(") else items  # noqa: PLR2004 - it and nothing


def _trim(text: str, start: int, end: int) -> TypedItem:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    plain = piece.strip()
    return TypedItem(plain, start, start + len(plain))


def _open_brackets(text: str, whole: TypedItem) -> TypedItem:
    """Returns what is within the brackets around the whole; the whole where there are none."""
    opening, closing = whole.text[:1], whole.text[-1:]
    if len(whole.text) < 2 or _CLOSING.get(opening) != closing:  # noqa: PLR2004 - a pair
        return whole
    inner = _trim(text, whole.start + 1, whole.end - 1)
    # Parentheses belong to a dim, too: `(N*M)`, and `(A*B)/(C*D)`. Around a shape there is a comma in them, or nothing.
    depths = [depth for _, depth in _find_depths(inner.text)]
    is_shape = "," in inner.text and min(depths) >= 0
    return inner if opening == "[" or not inner.text or is_shape else whole


def _find_depths(text: str) -> Iterator[tuple[int, int]]:
    """Yields the place of each comma and parenthesis, and in how many parentheses it leaves what is behind it.

    What is in quotes is a name, whatever it has in it.
    """
    depth = 0
    for match in _PIECE.finditer(text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        yield match.start(), depth


def _split(text: str, inner: TypedItem) -> Iterator[TypedItem]:
    start = inner.start
    for place, depth in _find_depths(inner.text):
        if inner.text[place] == "," and depth <= 0:
            yield _trim(text, start, inner.start + place)
            start = inner.start + place + 1
    yield _trim(text, start, inner.end)


def _parse_all(items: tuple[TypedItem, ...], parse: Callable[[str], Item], field: str) -> tuple[Item, ...]:
    return tuple([_parse_item(item.text, parse, f"{field}[{index}]", index) for index, item in enumerate(items)])


def _parse_item(text: str, parse: Callable[[str], Item], path: str, index: int) -> Item:
    try:
        return parse(text)
    except InvalidRequestError as error:
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, error.message, path, index=index, value=text) from None


def _parse_stride(text: str) -> int:
    if _STRIDE.fullmatch(text) is None or abs(int(text)) > MAX_DIM:
        message = f"{text!r} is no stride: a number of elements, up to 2^63 - 1"
        raise InvalidRequestError.of(Reason.DIM_SYNTAX_INVALID, message)
    return int(text)
