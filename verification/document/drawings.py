"""The drawings of the concept pages, drawn by `explorer.drawings` from queries."""

from collections.abc import Mapping
from dataclasses import dataclass

from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A query as text.

    Attributes:
        data: the input shape.
        shape: the requested shape.
        special_zero: whether a 0 copies.
        operation: the operation whose rules apply.
        expected: the expected output shape, or None.
    """

    data: str
    shape: str
    special_zero: bool = False
    operation: Operation = STATIC_RESHAPE
    expected: str | None = None

    def read(self) -> AnyQuestion:
        """Returns the query."""
        expected = None if self.expected is None else parse_shape(self.expected, "expected_shape")
        data, target = parse_shape(self.data, "data"), parse_shape(self.shape, "shape")
        return Question(self.operation, data, target, self.special_zero, None, expected)


DRAWINGS: Mapping[str, Asked] = {
    # reshape.md
    "merge": Asked(data="2,3,4", shape="6,4"),
    "infer": Asked(data="2,3,4", shape="2,-1"),
    "copy-and-infer": Asked(data="2,3,4", shape="0,-1", special_zero=True),
    "not-divisible": Asked(data="2,3,4", shape="5,-1"),
    # rules-in-examples.md
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


def draw_all() -> dict[str, str]:
    """Returns the SVG of each drawing, by its name."""
    return {name: draw_question(asked.read()) for name, asked in DRAWINGS.items()}


def draw_question(question: AnyQuestion) -> str:
    """Returns the drawing of an answer or of a rejection."""
    try:
        answer = answer_question(ShapeRequest(question, explain=True))
    except ReshapeError as error:
        return draw_rejection(question, error, is_standalone=True)
    return draw_answer(question, answer, is_standalone=True)
