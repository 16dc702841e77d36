"""The drawings of the concept pages: what is asked in each, and which values an interval really has.

All of them come from the rules: a drawing of an answer is `rules.drawings`, and the values that are reached are those
of every instance, each answered by the rules for numbers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tensor_reshape.rules.dims import find_bounds
from tensor_reshape.rules.drawings import draw_answer, draw_refusal
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question, infer_shape
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, KnownQuestion, Question, ShapeRequest
from tensor_reshape.rules.typed_shapes import parse_shape
from tensor_reshape.rules.vectors import Span, draw_box, draw_text, wrap_picture


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A question as it is typed.

    Attributes:
        data: the data shape.
        shape: the target.
        special_zero: whether a 0 copies.
        operation: whose rules answer.
        expected: the expected shape; None: none is declared.
    """

    data: str
    shape: str
    special_zero: bool = False
    operation: Operation = STATIC_RESHAPE
    expected: str | None = None

    def read(self) -> AnyQuestion:
        """Returns the question."""
        expected = None if self.expected is None else parse_shape(self.expected, "expected_shape")
        data, target = parse_shape(self.data, "data"), parse_shape(self.shape, "shape")
        return Question(self.operation, data, target, self.special_zero, None, expected)


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A question, and all its instances.

    Attributes:
        asked: the question.
        instances: the concrete data of each.
        target: of all of them.
        shown: from which value to which the line goes.
    """

    asked: Asked
    instances: list[tuple[int, ...]]
    target: tuple[int, ...]
    shown: range

    def infer_values(self) -> list[int]:
        """Returns the values of the first dim of the output that instances reach."""
        question = self.asked.read()
        known = [Question(question.operation, data, self.target, False) for data in self.instances]
        return sorted({dim for instance in known for dim in _infer_first(instance)})


def _infer_first(question: KnownQuestion) -> tuple[int, ...]:
    try:
        return infer_shape(question)[:1]
    except ReshapeError:
        return ()  # an instance that is refused reaches nothing


DRAWINGS: Mapping[str, Asked] = {
    # reshape.md
    "merge": Asked(data="2,3,4", shape="6,4"),
    "infer": Asked(data="2,3,4", shape="2,-1"),
    "copy-and-infer": Asked(data="2,3,4", shape="0,-1", special_zero=True),
    "not-divisible": Asked(data="2,3,4", shape="5,-1"),
    # operations.md
    "copied-size": Asked(data="4,5,6", shape="-1,0", special_zero=True),
    "second-minus-one": Asked(data="2,3,4", shape="-1,3,-1"),
    "volume": Asked(data="2,3", shape="4,2"),
    "copied-zero-of-graph": Asked(data="4,0,2", shape="-1,0", special_zero=True),
    "copied-zero-of-reshape": Asked(data="4,0,2", shape="-1,0", special_zero=True, operation=RESHAPE),
    # partial-shapes.md
    "interval": Asked(data="2..8,4,3", shape="-1,3"),
    "unknown-rank": Asked(data="...", shape="3,-1,0", special_zero=True, operation=RESHAPE),
    "expected": Asked(data="2..8,?", shape="-1,4", expected="6,?"),
    # sound-and-tight.md
    "tight": Asked(data="2..4,6", shape="-1,4"),
    "wide": Asked(data="N*M:4..7,N:3..5", shape="-1"),
    "no-instance": Asked(data="5..7,12", shape="40,-1"),
    # symbols.md
    "heads": Asked(data="N,S,768", shape="0,0,12,64", special_zero=True),
    "joined-names": Asked(data="N,S,768", shape="-1,768"),
    "equal-names": Asked(data="N,4", shape="M,2"),
    # differences.md
    "volume-beside-a-copy": Asked(data="2,3", shape="0,2", special_zero=True),
    "literal-zero": Asked(data="0,3", shape="0,-1"),
    "contradiction": Asked(data="16,4,?,8", shape="32,4"),
}

REACHED: Mapping[str, Reached] = {
    "tight-values": Reached(
        asked=DRAWINGS["tight"],
        instances=[(dim, 6) for dim in range(2, 5)],
        target=(-1, 4),
        shown=range(1, 9),
    ),
    "wide-values": Reached(
        asked=DRAWINGS["wide"],
        instances=[(n * m, n) for n in range(3, 6) for m in range(8) if 4 <= n * m <= 7],
        target=(-1,),
        shown=range(12, 29),
    ),
}

_CELL_PIXELS, _LEFT_PIXELS, _TOP_PIXELS = 34, 100, 12


def draw_all() -> dict[str, str]:
    """Returns the SVG of each drawing, by its name."""
    return {
        **{name: draw_question(asked.read()) for name, asked in DRAWINGS.items()},
        **{name: draw_values(reached) for name, reached in REACHED.items()},
    }


def draw_question(question: AnyQuestion) -> str:
    """Returns the drawing of an answer or of a refusal."""
    try:
        answer = answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as error:
        return draw_refusal(question, error, is_standalone=True)
    return draw_answer(question, answer, is_standalone=True)


def draw_values(reached: Reached) -> str:
    """Returns two rows of numbers: those that the answer says of the first dim, and those that instances reach."""
    dims = answer_question(ShapeRequest(reached.asked.read())).dims
    bounds = find_bounds(None if dims is None else dims[0])
    answered = [value for value in reached.shown if bounds.holds(value)]
    high = "any" if bounds.max is None else bounds.max
    title = f"{reached.asked.data} to {reached.asked.shape}: the first dim lies from {bounds.min} to {high}"
    values = reached.infer_values()
    words = title, f"What instances reach: {', '.join(map(str, values))}"
    elements = [*_draw_cells("answered", 0, reached.shown, answered, "inferred")]
    elements += _draw_cells("reached", 1, reached.shown, values, "copied")
    size = (
        _LEFT_PIXELS + _CELL_PIXELS * len(reached.shown) + _TOP_PIXELS,
        2 * (_CELL_PIXELS + _TOP_PIXELS) + _TOP_PIXELS,
    )
    return wrap_picture(words, size, elements, is_standalone=True)


def _draw_cells(name: str, row: int, shown: range, values: list[int], style: str) -> Iterator[str]:
    top = _TOP_PIXELS + row * (_CELL_PIXELS + _TOP_PIXELS)
    yield draw_text((_TOP_PIXELS, top + 22), [Span(name)])
    for column, value in enumerate(shown):
        if value in values:
            left = _LEFT_PIXELS + column * _CELL_PIXELS
            text = draw_text((left + _CELL_PIXELS / 2 - 2, top + 22), [Span(str(value))], "middle")
            yield draw_box((left, top), (_CELL_PIXELS - 4, _CELL_PIXELS), style, [text])
