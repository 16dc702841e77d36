"""Boxes, lines and texts as elements of SVG.

Laws: whatever text goes in, what comes out is well-formed XML: characters that cannot be printed are written as
escapes, those that XML knows as entities. Colours stand in attributes, so a page with a strict content policy shows
them, and its style sheet may set others by the classes of the elements.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple
from unicodedata import east_asian_width

from tensor_reshape.rules.errors import escape_unprintable

CHARACTER_PIXELS = 8.5
LABEL_CHARACTERS = 20
_TEXT_SIZE, _SMALL_SIZE = 14, 11.5
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# At least 3:1 against white and against a black page: what WCAG asks of what is no text. Texts have currentColor.
_STROKES = {
    "plain": "currentColor",
    "copied": "#2f7fd0",
    "inferred": "#c06a10",
    "blamed": "#dc3545",
}
_STYLE_SHEET = (
    "<style>:root{color:#1f2328;background:#ffffff}"
    "@media (prefers-color-scheme:dark){:root{color:#e6edf3;background:#0d1117}}</style>"
)
"""Of a drawing that is a file: nothing around it lends it a colour."""


class Span(NamedTuple):
    """A piece of a line of text.

    Attributes:
        text: as it is to be read, not escaped.
        is_struck: whether a line goes through it.
        is_strong: whether it is bold.
    """

    text: str
    is_struck: bool = False
    is_strong: bool = False


def escape_text(text: str) -> str:
    """Returns the text as XML; what cannot be printed becomes an escape of Python's."""
    return escape(escape_unprintable(text))


def count_cells(text: str) -> int:
    """Returns how many columns of a fixed-width font a text takes."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def clip_label(text: str) -> str:
    """Returns the text of a box, cut where it is long."""
    shown = text[: LABEL_CHARACTERS + 1]  # so that what is cut one by one is short
    while count_cells(shown) > LABEL_CHARACTERS:
        shown = shown[:-1]
    return shown if shown == text else f"{shown[:-1]}…"


def draw_text(
    place: tuple[float, float], spans: Sequence[Span], anchor: str = "start", *, is_small: bool = False
) -> str:
    """Returns a line of text.

    Args:
        place: of its baseline.
        spans: its pieces.
        anchor: which end of it stands there.
        is_small: whether it is a caption.
    """
    size = _SMALL_SIZE if is_small else _TEXT_SIZE
    inside = "".join(_draw_span(span) for span in spans)
    x, y = place
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{inside}</text>'


def draw_box(place: tuple[int, int], size: tuple[int, int], style: str, inside: Sequence[str]) -> str:
    """Returns a box with what is in it."""
    (x, y), (width, height) = place, size
    stroke = 3 if style == "blamed" else 1.5
    rectangle = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="none" '
        f'stroke="{_STROKES[style]}" stroke-width="{stroke}"/>'
    )
    return f'<g class="box {style}">{rectangle}{"".join(inside)}</g>'


def draw_line(start: tuple[int, int], end: tuple[int, int], style: str, *, is_dashed: bool = False) -> str:
    """Returns a line from a row to the next: it leaves and arrives upright."""
    (x, y), (to_x, to_y) = start, end
    middle = (y + to_y) / 2
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    return (
        f'<path class="line {style}" d="M{x} {y}C{x} {middle:g} {to_x} {middle:g} {to_x} {to_y}" fill="none" '
        f'stroke="{_STROKES[style]}" stroke-width="1.5"{dashes}/>'
    )


def draw_dot(place: tuple[int, int]) -> str:
    """Returns a dot, where lines meet."""
    x, y = place
    return f'<circle class="dot" cx="{x}" cy="{y}" r="3.5" fill="currentColor"/>'


def draw_title(text: str) -> str:
    """Returns what an element is, for readers and as a hint under the pointer."""
    return f"<title>{escape_text(text)}</title>"


def wrap_picture(words: tuple[str, str], size: tuple[int, int], elements: Sequence[str], *, is_standalone: bool) -> str:
    """Returns the elements as one picture.

    Args:
        words: its title, and its description.
        size: in pixels; where a page gives it less width, it shrinks.
        elements: what is in it.
        is_standalone: whether it has a style sheet of its own.
    """
    title, description = words
    width, height = size
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="tensor-reshape" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{_FONT}" fill="currentColor">'
    )
    named = f"{draw_title(title)}<desc>{escape_text(description)}</desc>"
    return "\n".join([head + named + (_STYLE_SHEET if is_standalone else ""), *elements, "</svg>\n"])


def _draw_span(span: Span) -> str:
    if not (span.is_struck or span.is_strong):
        return escape_text(span.text)
    marks = (' text-decoration="line-through" opacity="0.7"' if span.is_struck else "") + (
        ' font-weight="bold"' if span.is_strong else ""
    )
    return f"<tspan{marks}>{escape_text(span.text)}</tspan>"
