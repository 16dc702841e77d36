"""Answers and rejections as pictures: data, target and output as rows of boxes, and lines from where each dim comes.

Lines tell three things. A solid one leads from dims of the data to those that they become (`runs`), by way of a dot
where several take part. A dashed one leads from a data dim to the 0 that copies it. Below the target, each item stands
above its output dim. The equation underneath is that of rules 3 and 4, with what leaves both sides struck out.

Laws: a drawing shows what `targets`, `explanations` and `runs` say, and decides nothing. The same question has the same
drawing, character by character. It is well-formed XML whatever the question holds, of bounded size, and refers to
nothing outside itself. Nothing is told by colour alone.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from textwrap import wrap
from typing import NamedTuple

from tensor_reshape.explorer.runs import Run, find_runs
from tensor_reshape.explorer.vectors import (
    CHARACTER_PIXELS,
    Span,
    clip_label,
    count_cells,
    draw_box,
    draw_dot,
    draw_line,
    draw_text,
    draw_title,
    wrap_picture,
)
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, format_dim, format_dims
from tensor_reshape.rules.errors import MAX_VALUE_CHARACTERS, ReshapeError
from tensor_reshape.rules.explanations import explain_dims
from tensor_reshape.rules.limits import MAX_RANK
from tensor_reshape.rules.questions import AnyQuestion, Kind, ShapeAnswer
from tensor_reshape.rules.targets import Target, read_target

_NAME_PIXELS = 92
"""What the names of the rows take, on the left."""
_BOX_PIXELS = 46
_LEAST_WIDTH_PIXELS = 76
_GAP_PIXELS = 14
_EDGE_PIXELS = 10
_DEPTHS_PIXELS = {"target": 64}
"""How far a row is below the one above it: that of the target is where lines cross."""
_DEPTH_PIXELS = 26
_LINE_PIXELS = 21
_SHOWN_FACTORS = 8
_TIMES = " \N{MULTIPLICATION SIGN} "
_NARROW_CHARACTERS, _WIDE_CHARACTERS = 46, 90
"""How wide a text is: as the boxes, but no less than a narrow screen shows, and no more than people read at once."""

_CAPTIONS = {
    Kind.LITERAL: "number",
    Kind.COPIED: "copied",
    Kind.INFERRED: "inferred",
    Kind.LENGTH: "length",
    Kind.UNKNOWN: "unknown",
}
_STYLES = {Kind.COPIED: "copied", Kind.INFERRED: "inferred"}
_BLAMED = re.compile(r"(?:^|\.)(data|shape|expected_shape)(?:\.dims)?(?:\[(\d+)\])?$")


class _Box(NamedTuple):
    text: str
    caption: str = ""
    style: str = "plain"


class _Row(NamedTuple):
    """Boxes side by side; `field` is what a rejection calls the row."""

    name: str
    field: str
    boxes: list[_Box]


class _Grid(NamedTuple):
    """Where columns begin and how wide they are, where rows begin, where columns end, how many boxes the data has."""

    lefts: list[int]
    widths: list[int]
    tops: list[int]
    right: int
    data_count: int

    def find_top(self, column: int, row: int) -> tuple[int, int]:
        """Returns the middle of a box's upper edge."""
        return self.lefts[column] + self.widths[column] // 2, self.tops[row]

    def find_bottom(self, column: int, row: int) -> tuple[int, int]:
        """Returns the middle of a box's lower edge."""
        x, y = self.find_top(column, row)
        return x, y + _BOX_PIXELS


def draw_answer(question: AnyQuestion, answer: ShapeAnswer, *, is_standalone: bool = False) -> str:
    """Returns an answer as SVG.

    Args:
        question: what was asked.
        answer: its answer, explained or not.
        is_standalone: whether it is to be a file of its own. It then has a background, and colours for light and dark
            in a style sheet, which the content policy of a page may forbid.
    """
    target = _read_items(question, answer.dims)
    rows = [*_list_rows(question, target), _Row("output", "", _make_boxes(answer.dims))]
    if question.expected is not None:
        rows.append(_Row("expected", "expected_shape", _make_boxes(question.expected)))
    footer, story = list[list[Span]](), list[str]()
    if target is not None and answer.dims is not None:
        footer = [_equate(target, question.data, answer.dims)]
        story = [origin.text for origin in explain_dims(question, target, answer.dims)]
    words = f"{_describe(question)}: {format_dims(answer.dims)}", "; ".join(story)
    grid = _lay_out(rows)
    runs = _find_shown_runs(question, answer, target)
    kept = {above[0] for below, above in runs if below == above and len(below) == 1}
    lines = [*_draw_runs(runs, target, grid), *_draw_copies(target, kept, grid), *_draw_items(target, rows, grid)]
    return _compose(words, rows, footer, grid, lines, is_standalone=is_standalone)


def draw_rejection(question: AnyQuestion, error: ReshapeError, *, is_standalone: bool = False) -> str:
    """Returns a rejection as SVG, with the item to blame marked.

    Args:
        question: what was asked.
        error: why it is rejected. What would have been accepted is drawn where the rejection was explained.
        is_standalone: as in `draw_answer`; the drawing then says in words what is wrong, too.
    """
    target = _read_items(question, None)
    rows = _list_rows(question, target)
    if question.expected is not None:
        rows.append(_Row("expected", "expected_shape", _make_boxes(question.expected)))
    rows = [_mark_blamed(row, error.field) for row in rows]
    accepted = f"accepted: {error.metadata['accepted']}" if "accepted" in error.metadata else ""
    # Some messages end with it already. It begins a line of its own, as it is what a reader looks for.
    story = [error.message.removesuffix(f"; {accepted}"), accepted] if accepted else [error.message]
    grid = _lay_out(rows)
    # A page says it beside the drawing, in text that it wraps as it has room.
    footer = _write_rejection(str(error.reason), story, grid.right) if is_standalone else []
    words = f"{_describe(question)}: rejected, {error.reason}", "; ".join(story)
    return _compose(words, rows, footer, grid, [*_draw_copies(target, (), grid)], is_standalone=is_standalone)


def _write_rejection(reason: str, story: Sequence[str], width: int) -> list[list[Span]]:
    """Returns the lines underneath, of a width for people to read."""
    characters = min(max(_NARROW_CHARACTERS, int((width - _EDGE_PIXELS) / CHARACTER_PIXELS)), _WIDE_CHARACTERS)
    lines = [line for text in story for line in wrap(text, characters)]
    return [[Span(reason, is_strong=True)], *[[Span(line)] for line in lines]]


def _read_items(question: AnyQuestion, output: Sequence[AnyDim] | None) -> Target[AnyDim] | None:
    """Returns the target, None where not even its length is known."""
    if question.target is not None:
        return read_target(question, question.target[:MAX_RANK])
    return None if output is None else read_target(question, [None] * len(output))


def _describe(question: AnyQuestion) -> str:
    zero = " with special_zero" if question.special_zero else ""
    return f"{question.operation} of {format_dims(question.data)} to {format_dims(question.target)}{zero}"


def _list_rows(question: AnyQuestion, target: Target[AnyDim] | None) -> list[_Row]:
    """Returns what every drawing has: the data, and the target with what its items are."""
    items = target.dims if question.target is None and target is not None else question.target
    boxes = _make_boxes(items)
    kinds = () if target is None else target.kinds  # of a target that is rejected: of those before the one to blame
    for index, kind in enumerate(kinds):
        boxes[index] = _Box(boxes[index].text, _CAPTIONS[kind], _STYLES.get(kind, "plain"))
    return [_Row("data", "data", _make_boxes(question.data)), _Row("target", "shape", boxes)]


def _make_boxes(dims: Sequence[AnyDim] | None) -> list[_Box]:
    """Returns a box for each dim; one box for a scalar, and for a rank that is unknown."""
    if dims is None:
        return [_Box("...", "any rank")]
    if not dims:
        return [_Box("[ ]", "scalar")]
    boxes = [_Box(format_dim(dim), _show_bounds(dim)) for dim in dims[:MAX_RANK]]
    return [*boxes, _Box("...", f"{len(dims)} items")] if len(dims) > MAX_RANK else boxes


def _show_bounds(dim: AnyDim) -> str:
    """Returns the bounds of a dim that has a name, where they say something."""
    if not isinstance(dim, Dim) or dim.expression is None or dim.bounds == ANY:
        return ""
    return str(Dim(dim.bounds))


def _mark_blamed(row: _Row, field: str) -> _Row:
    """Returns the row with those of its boxes marked that a rejection blames."""
    match = _BLAMED.search(field)
    if match is None or match[1] != row.field:
        return row
    # An item behind the last that is shown is in the box that stands for the others.
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


def _find_shown_runs(
    question: AnyQuestion, answer: ShapeAnswer, target: Target[AnyDim] | None
) -> list[tuple[list[int], list[int]]]:
    """Returns the runs as columns of data and output: the box of a scalar, or of an unknown rank, is in the first."""
    data, output = question.data or (), answer.dims or ()
    if question.data is None or answer.dims is None:
        runs = [Run(range(len(data)), range(len(output)))]
    else:
        runs = find_runs(data, output, () if target is None else target.copied)
    return [([*run.data] or [0], [*run.output] or [0]) for run in runs]


def _draw_runs(
    runs: Iterable[tuple[list[int], list[int]]], target: Target[AnyDim] | None, grid: _Grid
) -> Iterable[str]:
    """Yields the lines from the dims of the data to those that they become."""
    for below, above in runs:
        starts = [grid.find_bottom(column, 0) for column in below]
        ends = [(grid.find_top(column, 1), _find_style(target, column)) for column in above]
        if len(starts) == len(ends) == 1:
            yield draw_line(starts[0], *ends[0])
            continue
        middles = [x for x, _ in starts] + [x for (x, _), _ in ends]
        dot = sum(middles) // len(middles), grid.tops[1] - _DEPTHS_PIXELS["target"] // 2
        yield from [draw_line(start, dot, "plain") for start in starts]
        yield from [draw_line(dot, end, style) for end, style in ends]
        yield draw_dot(dot)


def _draw_copies(target: Target[AnyDim] | None, kept: Collection[int], grid: _Grid) -> Iterable[str]:
    """Yields a line from the data to each copy, but for those that are a run by themselves: these have one already."""
    for index in () if target is None else target.copied:
        if index not in kept:
            start = grid.find_bottom(min(index, grid.data_count - 1), 0)
            yield draw_line(start, grid.find_top(index, 1), "copied", is_dashed=True)


def _draw_items(target: Target[AnyDim] | None, rows: Sequence[_Row], grid: _Grid) -> Iterable[str]:
    """Yields the lines from the items to the dims of the output."""
    for column, _ in enumerate(rows[1].boxes):
        yield draw_line(grid.find_bottom(column, 1), grid.find_top(column, 2), _find_style(target, column))


def _find_style(target: Target[AnyDim] | None, column: int) -> str:
    kinds = () if target is None else target.kinds
    return _STYLES.get(kinds[column], "plain") if column < len(kinds) else "plain"


def _equate(target: Target[AnyDim], data: Sequence[AnyDim] | None, output: Sequence[AnyDim]) -> list[Span]:
    """Returns the equation of the volumes: of the -1, where there is one."""
    left = _multiply(data, target.cancelled)
    inferred = target.inferred
    if inferred is None:
        return [Span("elements: "), *left, Span(" = "), *_multiply(output, ())]
    others = {index: dim for index, dim in enumerate(target.dims) if index != inferred}
    right = _multiply([*others.values()], [at for at, index in enumerate(others) if index in target.cancelled])
    divisor = [Span(" ÷ ("), *right, Span(")")] if len(right) > 1 else [Span(" ÷ "), *right]
    return [Span("-1 is "), *left, *(divisor if others else []), Span(f" = {clip_label(format_dim(output[inferred]))}")]


def _multiply(dims: Sequence[AnyDim] | None, struck: Collection[int]) -> list[Span]:
    """Returns a product, with some of its factors struck out."""
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
    """Returns the picture: lines first, so that boxes and texts lie on them."""
    boxes = [element for number, row in enumerate(rows) for element in _draw_row(row, number, grid)]
    y = grid.tops[-1] + _BOX_PIXELS + _EDGE_PIXELS
    texts = [draw_text((_EDGE_PIXELS, y + _LINE_PIXELS * count), line) for count, line in enumerate(footer, 1)]
    longest = max((sum(count_cells(span.text) for span in line) for line in footer), default=0)
    right = max(grid.right, _EDGE_PIXELS + int(longest * CHARACTER_PIXELS))
    size = right + _EDGE_PIXELS, y + _LINE_PIXELS * len(footer) + (_EDGE_PIXELS if footer else 0)
    return wrap_picture(words, size, [*lines, *boxes, *texts], is_standalone=is_standalone)


def _draw_row(row: _Row, number: int, grid: _Grid) -> Iterable[str]:
    top = grid.tops[number]
    yield draw_text((_EDGE_PIXELS, top + _BOX_PIXELS // 2 + 5), [Span(row.name)])
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
