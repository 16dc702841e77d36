"""Draws boxes, lines and texts as SVG elements.

Invariants: for any text, the output is well-formed XML. Unprintable characters are escaped, and special characters of
XML become entities. Colours are written as attributes, so a page with a strict content security policy shows them, and
the page's style sheet may set other colours by the classes of the elements.
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

# On a white and on a black page, these colours have a contrast of at least 3:1, which the accessibility guideline WCAG
# requires for graphics. Texts have currentColor.
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
"""The style sheet of a drawing in its own file, which has no page to set its colours."""


class Span(NamedTuple):
    """A part of a line of text.

    Attributes:
        text: the text without XML escapes.
        is_struck: whether the text is struck through.
        is_strong: whether the text is bold.
    """

    text: str
    is_struck: bool = False
    is_strong: bool = False


def escape_text(text: str) -> str:
    """Returns the text in XML form, with Python's escapes for unprintable characters."""
    return escape(escape_unprintable(text))


def count_cells(text: str) -> int:
    """Returns the number of columns of a text in a fixed-width font."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def clip_label(text: str) -> str:
    """Returns the text of a box, which is cut if it is too long."""
    # the text is first cut to about the right length, so that the loop removes only a few characters
    shown = text[: LABEL_CHARACTERS + 1]
    while count_cells(shown) > LABEL_CHARACTERS:
        shown = shown[:-1]
    return shown if shown == text else f"{shown[:-1]}…"


def draw_text(
    place: tuple[float, float], spans: Sequence[Span], anchor: str = "start", *, is_small: bool = False
) -> str:
    """Returns a line of text.

    Args:
        place: the position of the line's baseline.
        spans: the parts of the line.
        anchor: the part of the line at this position: its start, middle or end.
        is_small: whether the line is a caption.
    """
    size = _SMALL_SIZE if is_small else _TEXT_SIZE
    inside = "".join(_draw_span(span) for span in spans)
    x, y = place
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}">{inside}</text>'


def draw_box(place: tuple[int, int], size: tuple[int, int], style: str, inside: Sequence[str]) -> str:
    """Returns a box with its contents as SVG."""
    (x, y), (width, height) = place, size
    stroke = 3 if style == "blamed" else 1.5
    rectangle = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="none" '
        f'stroke="{_STROKES[style]}" stroke-width="{stroke}"/>'
    )
    return f'<g class="box {style}">{rectangle}{"".join(inside)}</g>'


def draw_line(start: tuple[int, int], end: tuple[int, int], style: str, *, is_dashed: bool = False) -> str:
    """Returns a curve from a row of boxes to the next row. Both ends of the curve are vertical."""
    (x, y), (to_x, to_y) = start, end
    middle = (y + to_y) / 2
    dashes = ' stroke-dasharray="5 4"' if is_dashed else ""
    return (
        f'<path class="line {style}" d="M{x} {y}C{x} {middle:g} {to_x} {middle:g} {to_x} {to_y}" fill="none" '
        f'stroke="{_STROKES[style]}" stroke-width="1.5"{dashes}/>'
    )


def draw_dot(place: tuple[int, int]) -> str:
    """Returns a dot at which several lines meet."""
    x, y = place
    return f'<circle class="dot" cx="{x}" cy="{y}" r="3.5" fill="currentColor"/>'


def draw_title(text: str) -> str:
    """Returns the title of an element, for screen readers and as a tooltip."""
    return f"<title>{escape_text(text)}</title>"


def wrap_picture(words: tuple[str, str], size: tuple[int, int], elements: Sequence[str], *, is_standalone: bool) -> str:
    """Combines SVG elements into one picture.

    Args:
        words: the title and the description.
        size: the width and height in pixels. If a page is narrower, it shows the picture smaller.
        elements: the contents.
        is_standalone: whether the picture has its own style sheet.
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
