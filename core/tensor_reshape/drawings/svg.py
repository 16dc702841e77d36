"""Draws the results of shape queries and the reasons of rejections.

In a drawing, the input shape, the requested shape and the output shape are rows of boxes, and lines show the origin of
each dim. A drawing has three kinds of lines. A solid line from the first row to the second row connects an input dim
with an item of the requested shape, if the input dim becomes the output dim of this item. If several neighbouring dims
are merged or split, their lines meet in a dot. A dashed line leads from an input dim to the 0 that copies it. A solid
line from the second row to the third row leads from an item of the requested shape to the output dim below it. Below
the rows of an answer, a drawing shows the equation of rules 3 and 4. Copied dims are struck out if these rules remove
them from both sides of the equation.

Invariants: the content of a drawing comes from the modules `targets` and `explanations`. The same query has the same
drawing, character by character. A drawing is well-formed XML of limited size for any query, and needs no other file. No
information is expressed only by a colour. In all texts, unprintable characters are escaped, and special characters of
XML become entities. Colours are written as attributes, so a page with a strict content security policy shows them. The
style sheet of the page may set other colours, because the elements have classes.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from html import escape
from textwrap import wrap
from typing import NamedTuple
from unicodedata import east_asian_width

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, format_dim, format_dims
from tensor_reshape.rules.errors import (
    MAX_VALUE_CHARACTERS,
    InvalidRequestError,
    LimitError,
    Reason,
    ReshapeError,
    escape_unprintable,
)
from tensor_reshape.rules.explanations import explain_dims, find_dim_groups
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.limits import MAX_RANK
from tensor_reshape.rules.questions import AnyQuestion, DimGroup, Kind, ShapeAnswer, ShapeRequest
from tensor_reshape.rules.targets import Target, read_target

_NAME_PIXELS = 122
"""The width of the names of the rows, on the left."""
_BOX_PIXELS = 46
_LEAST_WIDTH_PIXELS = 76
_GAP_PIXELS = 14
_EDGE_PIXELS = 10
_REQUESTED = "requested shape"
_DEPTHS_PIXELS = {_REQUESTED: 64}
"""The distance of a row from the row above it. The requested shape needs more space, because lines cross above it."""
_DEPTH_PIXELS = 26
_LINE_PIXELS = 21
_SHOWN_FACTORS = 8
_TIMES = " \N{MULTIPLICATION SIGN} "
_NARROW_CHARACTERS, _WIDE_CHARACTERS = 46, 90
"""The minimum and maximum width of a text, for a narrow screen and for a readable line.

Between these limits, a text is as wide as the boxes.
"""

_CAPTIONS = {
    Kind.LITERAL: "number",
    Kind.COPIED: "copied",
    Kind.INFERRED: "inferred",
    Kind.LENGTH: "size",
    Kind.UNKNOWN: "unknown",
}
_STYLES = {Kind.COPIED: "copied", Kind.INFERRED: "inferred"}
_WRONG_FIELD = re.compile(r"(?:^|\.)(data|shape|expected_shape)(?:\.dims)?(?:\[(\d+)\])?$")

CHARACTER_PIXELS = 8.5
LABEL_CHARACTERS = 20
_TEXT_SIZE, _SMALL_SIZE = 14, 11.5
_FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

# On a white and on a black page, these colours have a contrast of at least 3:1, which the accessibility guideline WCAG
# requires for graphics. Texts have currentColor.
_STROKES = {"plain": "currentColor", "copied": "#2f7fd0", "inferred": "#c06a10", "blamed": "#dc3545"}
_STYLE_SHEET = (
    "<style>.tensor-reshape{color:#1f2328;background:#ffffff}"
    "@media (prefers-color-scheme:dark){.tensor-reshape{color:#e6edf3;background:#0d1117}}</style>"
)
"""The style sheet of a drawing in its own file, which has no page to set its colours.

If a notebook puts the drawing into its page, the style sheet applies to drawings only.
"""


class Span(NamedTuple):
    """A piece of a line of text, which is drawn in one style.

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
    """Returns the number of columns that a text takes in a fixed-width font."""
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
    """Returns one line of text as an SVG element."""
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
    """Returns a `<title>` element, which screen readers read aloud and browsers show as a tooltip."""
    return f"<title>{escape_text(text)}</title>"


def wrap_picture(words: tuple[str, str], size: tuple[int, int], elements: Sequence[str], *, is_standalone: bool) -> str:
    """Combines SVG elements into one picture."""
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


class _Box(NamedTuple):
    text: str
    caption: str = ""
    style: str = "plain"


class _Row(NamedTuple):
    """A row of boxes for one shape. Errors about this shape name the request field `field`."""

    name: str
    field: str
    boxes: list[_Box]


class _Grid(NamedTuple):
    """The layout of a drawing.

    The layout has the position and width of each column, the top of each row, the right end of the last column, and the
    number of boxes in the row of the input shape.
    """

    lefts: list[int]
    widths: list[int]
    tops: list[int]
    right: int
    data_count: int

    def find_top(self, column: int, row: int) -> tuple[int, int]:
        """Returns the middle of the upper edge of a box."""
        return self.lefts[column] + self.widths[column] // 2, self.tops[row]

    def find_bottom(self, column: int, row: int) -> tuple[int, int]:
        """Returns the middle of the lower edge of a box."""
        x, y = self.find_top(column, row)
        return x, y + _BOX_PIXELS


def draw_answer(question: AnyQuestion, answer: ShapeAnswer, *, is_standalone: bool = False) -> str:
    """Draws an answer as SVG.

    Args:
        question: the query.
        answer: the answer to the query, with or without explanations.
        is_standalone: whether the drawing will be a file of its own. A drawing in its own file has a style sheet, which
            sets the background and the colours for light and dark schemes. A drawing within a page has no style sheet,
            because the content security policy of the page may forbid one.
    """
    target = _read_items(question, answer.dims)
    rows = [*_list_rows(question, target), _Row("output shape", "", _make_boxes(answer.dims))]
    if question.expected is not None:
        rows.append(_Row("expected shape", "expected_shape", _make_boxes(question.expected)))
    footer, story = list[list[Span]](), list[str]()
    if target is not None and answer.dims is not None:
        footer = [_equate(target, question.data, answer.dims)]
        story = [origin.text for origin in explain_dims(question, target, answer.dims)]
    words = f"{_describe(question)}: {format_dims(answer.dims)}", "; ".join(story)
    grid = _lay_out(rows)
    groups = _find_shown_groups(question, answer, target)
    kept = {above[0] for below, above in groups if below == above and len(below) == 1}
    lines = [*_draw_groups(groups, target, grid), *_draw_copies(target, kept, grid), *_draw_items(target, rows, grid)]
    return _compose(words, rows, footer, grid, lines, is_standalone=is_standalone)


def draw_rejection(question: AnyQuestion, error: ReshapeError, *, is_standalone: bool = False) -> str:
    """Draws a rejection as SVG, and marks the item that is wrong.

    Args:
        question: the query.
        error: the rejection. If the rejection has an explanation, the drawing shows the accepted values.
        is_standalone: whether the drawing will be a file of its own, as in `draw_answer`. A drawing in its own file
            also contains the text of the rejection.
    """
    target = _read_items(question, None)
    rows = _list_rows(question, target)
    if question.expected is not None:
        rows.append(_Row("expected shape", "expected_shape", _make_boxes(question.expected)))
    rows = [_mark_wrong(row, error.field) for row in rows]
    accepted = f"accepted: {error.metadata['accepted']}" if "accepted" in error.metadata else ""
    # Some error messages already end with the accepted values. These accepted values are moved to a separate line,
    # because readers look for them.
    story = [error.message.removesuffix(f"; {accepted}"), accepted] if accepted else [error.message]
    grid = _lay_out(rows)
    # A drawing within a page does not contain the text of the rejection, because the page shows this text with its own
    # line breaks.
    footer = _write_rejection(str(error.reason), story, grid.right) if is_standalone else []
    words = f"{_describe(question)}: rejected, {error.reason}", "; ".join(story)
    return _compose(words, rows, footer, grid, [*_draw_copies(target, (), grid)], is_standalone=is_standalone)


def draw_explained(question: AnyQuestion, error: ReshapeError) -> str:
    """Draws a rejection and the accepted values for a file of its own.

    If the rejection has no explanation, this function applies the rules to the query again. It uses the new explanation
    if the new rejection has the same reason and the same field.
    """
    try:
        if "accepted" not in error.metadata:
            answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as explained:
        if (explained.reason, explained.field) == (error.reason, error.field):
            error = explained
    return draw_rejection(question, error, is_standalone=True)


def _write_rejection(reason: str, story: Sequence[str], width: int) -> list[list[Span]]:
    """Wraps the lines below the boxes at a readable width."""
    characters = min(max(_NARROW_CHARACTERS, int((width - _EDGE_PIXELS) / CHARACTER_PIXELS)), _WIDE_CHARACTERS)
    lines = [line for text in story for line in wrap(text, characters)]
    return [[Span(reason, is_strong=True)], *[[Span(line)] for line in lines]]


def _read_items(question: AnyQuestion, output: Sequence[AnyDim] | None) -> Target[AnyDim] | None:
    """Returns the requested shape.

    The result is None if the length of the requested shape is unknown, or if the output contradicts its items.
    """
    if question.target is None:
        return None if output is None else read_target(question, [None] * len(output))
    target = read_target(question, question.target[:MAX_RANK])
    # A server of another project may return a shape that contradicts the items.
    is_contradicted = output is not None and (target.rejection is not None or len(target.dims) != len(output))
    return None if is_contradicted else target


def _describe(question: AnyQuestion) -> str:
    zero = " with special_zero" if question.special_zero else ""
    return f"{question.operation} of {format_dims(question.data)} to {format_dims(question.target)}{zero}"


def _list_rows(question: AnyQuestion, target: Target[AnyDim] | None) -> list[_Row]:
    """Returns the first two rows of a drawing: the input shape, and the requested shape with the kinds of its items."""
    items = target.dims if question.target is None and target is not None else question.target
    boxes = _make_boxes(items)
    # After a rejection, `target.kinds` has only the kinds of the items before the invalid item.
    kinds = () if target is None else target.kinds
    for index, kind in enumerate(kinds):
        boxes[index] = _Box(boxes[index].text, _CAPTIONS[kind], _STYLES.get(kind, "plain"))
    return [_Row("input shape", "data", _make_boxes(question.data)), _Row(_REQUESTED, "shape", boxes)]


def _make_boxes(dims: Sequence[AnyDim] | None) -> list[_Box]:
    """Returns a box for each dim, or one box for a scalar or an unknown rank."""
    if dims is None:
        return [_Box("...", "any rank")]
    if not dims:
        return [_Box("[ ]", "scalar")]
    boxes = [_Box(format_dim(dim), _show_bounds(dim)) for dim in dims[:MAX_RANK]]
    return [*boxes, _Box("...", f"{len(dims)} items")] if len(dims) > MAX_RANK else boxes


def _show_bounds(dim: AnyDim) -> str:
    """Returns the bounds of a dim with a name. The text is empty if the dim has no name or no bounds."""
    if not isinstance(dim, Dim) or dim.expression is None or dim.bounds == ANY:
        return ""
    return str(Dim(dim.bounds))


def _mark_wrong(row: _Row, field: str) -> _Row:
    """Returns the row with a mark on the boxes of the rejected items."""
    match = _WRONG_FIELD.search(field)
    if match is None or match[1] != row.field:
        return row
    # The last box of a row represents all items that are not shown.
    chosen = range(len(row.boxes)) if match[2] is None else [min(int(match[2]), len(row.boxes) - 1)]
    boxes = [_Box(box.text, "rejected", "blamed") if at in chosen else box for at, box in enumerate(row.boxes)]
    return row._replace(boxes=boxes)


def _lay_out(rows: Sequence[_Row]) -> _Grid:
    count = max(len(row.boxes) for row in rows)
    widths = [_LEAST_WIDTH_PIXELS] * count
    for row in rows:
        for column, box in enumerate(row.boxes):
            widest = max(count_cells(clip_label(box.text)), count_cells(clip_label(box.caption)))
            widths[column] = max(widths[column], int(widest * CHARACTER_PIXELS) + 16)
    lefts = [_NAME_PIXELS + sum(widths[:column]) + _GAP_PIXELS * column for column in range(count)]
    tops = list[int]()
    for row in rows:
        above = tops[-1] + _BOX_PIXELS if tops else 0
        tops.append(above + (_DEPTHS_PIXELS.get(row.name, _DEPTH_PIXELS) if tops else _EDGE_PIXELS))
    return _Grid(lefts, widths, tops, lefts[-1] + widths[-1], len(rows[0].boxes))


def _find_shown_groups(
    question: AnyQuestion, answer: ShapeAnswer, target: Target[AnyDim] | None
) -> list[tuple[list[int], list[int]]]:
    """Returns the columns of the data dims and the columns of the output dims in each group.

    A scalar and a shape of unknown rank are drawn in column 0.
    """
    data, output = question.data or (), answer.dims or ()
    if question.data is None or answer.dims is None:
        groups = [DimGroup(range(len(data)), range(len(output)))]
    else:
        groups = find_dim_groups(data, output, () if target is None else target.copied)
    return [([*group.data] or [0], [*group.output] or [0]) for group in groups]


def _draw_groups(
    groups: Iterable[tuple[list[int], list[int]]], target: Target[AnyDim] | None, grid: _Grid
) -> Iterable[str]:
    """Yields the lines that connect each data dim with the items whose output dims it becomes."""
    for below, above in groups:
        starts = [grid.find_bottom(column, 0) for column in below]
        ends = [(grid.find_top(column, 1), _find_style(target, column)) for column in above]
        if len(starts) == len(ends) == 1:
            yield draw_line(starts[0], *ends[0])
            continue
        middles = [x for x, _ in starts] + [x for (x, _), _ in ends]
        dot = sum(middles) // len(middles), grid.tops[1] - _DEPTHS_PIXELS[_REQUESTED] // 2
        yield from [draw_line(start, dot, "plain") for start in starts]
        yield from [draw_line(dot, end, style) for end, style in ends]
        yield draw_dot(dot)


def _draw_copies(target: Target[AnyDim] | None, kept: Collection[int], grid: _Grid) -> Iterable[str]:
    """Yields a line from each copied data dim to the item that copies it.

    Copies whose index is in `kept` are left out, because they already have a solid line.
    """
    for index in () if target is None else target.copied:
        if index not in kept:
            start = grid.find_bottom(min(index, grid.data_count - 1), 0)
            yield draw_line(start, grid.find_top(index, 1), "copied", is_dashed=True)


def _draw_items(target: Target[AnyDim] | None, rows: Sequence[_Row], grid: _Grid) -> Iterable[str]:
    """Yields the lines from the target items to the output dims."""
    for column, _ in enumerate(rows[1].boxes):
        yield draw_line(grid.find_bottom(column, 1), grid.find_top(column, 2), _find_style(target, column))


def _find_style(target: Target[AnyDim] | None, column: int) -> str:
    kinds = () if target is None else target.kinds
    return _STYLES.get(kinds[column], "plain") if column < len(kinds) else "plain"


def _equate(target: Target[AnyDim], data: Sequence[AnyDim] | None, output: Sequence[AnyDim]) -> list[Span]:
    """Returns the equation that computes the item -1, or that compares the numbers of elements if no item is -1."""
    left = _multiply(data, target.cancelled)
    inferred = target.inferred
    if inferred is None:
        return [Span("elements: "), *left, Span(" = "), *_multiply(output, ())]
    others = {index: dim for index, dim in enumerate(target.dims) if index != inferred}
    right = _multiply([*others.values()], [at for at, index in enumerate(others) if index in target.cancelled])
    divisor = [Span(" ÷ ("), *right, Span(")")] if len(right) > 1 else [Span(" ÷ "), *right]
    return [Span("-1 is "), *left, *(divisor if others else []), Span(f" = {clip_label(format_dim(output[inferred]))}")]


def _multiply(dims: Sequence[AnyDim] | None, struck: Collection[int]) -> list[Span]:
    """Returns a product as text, with some of its factors struck out."""
    if not dims:
        return [Span("?" if dims is None else "1")]
    spans = list[Span]()
    for index, dim in enumerate(dims[:_SHOWN_FACTORS]):
        spans += [Span(_TIMES), Span(clip_label(format_dim(dim)), is_struck=index in struck)]
    return [*spans[1:], Span(f"{_TIMES}...")] if len(dims) > _SHOWN_FACTORS else spans[1:]


def _compose(
    words: tuple[str, str],
    rows: Sequence[_Row],
    footer: Sequence[Sequence[Span]],
    grid: _Grid,
    lines: Iterable[str],
    *,
    is_standalone: bool,
) -> str:
    """Returns the picture. Lines are drawn first, so that boxes and texts cover them."""
    boxes = [element for number, row in enumerate(rows) for element in _draw_row(row, number, grid)]
    y = grid.tops[-1] + _BOX_PIXELS + _EDGE_PIXELS
    texts = [draw_text((_EDGE_PIXELS, y + _LINE_PIXELS * count), line) for count, line in enumerate(footer, 1)]
    longest = max((sum(count_cells(span.text) for span in line) for line in footer), default=0)
    right = max(grid.right, _EDGE_PIXELS + int(longest * CHARACTER_PIXELS))
    size = right + _EDGE_PIXELS, y + _LINE_PIXELS * len(footer) + (_EDGE_PIXELS if footer else 0)
    return wrap_picture(words, size, [*lines, *boxes, *texts], is_standalone=is_standalone)


def _draw_row(row: _Row, number: int, grid: _Grid) -> Iterable[str]:
    top = grid.tops[number]
    yield draw_text((_EDGE_PIXELS, top + _BOX_PIXELS // 2 + 5), [Span(row.name)], is_small=True)
    for column, box in enumerate(row.boxes):
        x, _ = grid.find_top(column, number)
        below = top + (20 if box.caption else 28)
        inside = [
            draw_title(box.text[:MAX_VALUE_CHARACTERS]),
            draw_text((x, below), [Span(clip_label(box.text))], "middle"),
        ]
        if box.caption:
            caption = [Span(clip_label(box.caption))]
            inside.append(draw_text((x, below + 17), caption, "middle", is_small=True))
        yield draw_box((grid.lefts[column], top), (grid.widths[column], _BOX_PIXELS), box.style, inside)


def draw_question(request: ShapeRequest, infer: Callable[[ShapeRequest], ShapeAnswer]) -> str:
    """Returns an SVG drawing of the answer to a query, or of its rejection.

    Args:
        request: the query.
        infer: the function that answers a query, or raises its rejection.

    Raises:
        ReshapeError: the call is rejected for a cause other than the query, for example because the server is busy.
    """
    try:
        answer = infer(request)
    except ReshapeError as error:
        if not _concerns_query(error):
            raise
        return draw_rejection(request.question, error)
    return draw_answer(request.question, answer)


def _concerns_query(error: ReshapeError) -> bool:
    """Whether the query itself is the cause of the error, so that the query would be rejected again.

    The reason STALLED has another cause, which is the client or the network.
    """
    if isinstance(error, LimitError):
        return isinstance(error.reason, Reason) and not (error.reason.is_retryable or error.reason is Reason.STALLED)
    return isinstance(error, InvalidRequestError)
