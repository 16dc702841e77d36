"""Queries as people type them into the explorer, and their results without its page."""

from typing import NamedTuple

from hypothesis import strategies as st

from tensor_reshape.rules.dims import format_dims, read_unknown
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_shape
from tensor_reshape.rules.operations import SHAPE_OPERATIONS
from tensor_reshape.rules.questions import Question, ShapeRequest

QUOTED = "'; rm -rf ~; '"
"""A name in quotes, which is a valid dim."""

HOSTILE = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror='alert(1)'>",
    QUOTED,
    "$(touch owned)",
    "N\u202e\u2066",  # characters that change the direction of writing
    "\u200f",
    "%00%0a",
    "\x00",
    "N" * 10_000,
    "," * 10_000,
    "é" * 4_000,
    "\ud7ff\U0001f600",
]
"""Texts that a page, a shell or Python must never execute or interpret."""

_LENGTHS = ["1", "2", "3", "4", "6", "12", "N", "M", "N:1..8", "4*C", "N/2", "N^2/(2*M)", "2..8", "2..", "?", " 6 "]
_ODD = ["größe", "名", str(2**63), f"2..{2**63}", f"N:1..{2**64}", "5..2", "N:9..", "4 * C"]
_ODD += ["seq + past", "floor(height/8)", "input.1_dynamic_axes_2", "'a, (b'", "'it''s \"$(id)\" `id` <b> & \\n'"]
_FORMS = ["{}", "{}", "[{}]", " {} "]


def _write_shapes(dims: list[str]) -> st.SearchStrategy[str]:
    shapes = st.lists(st.sampled_from(dims), max_size=4).map(",".join)
    return st.builds(str.format, st.sampled_from(_FORMS), shapes) | st.just("...")


_DATA = _write_shapes([*_LENGTHS, *_LENGTHS, *_ODD, "0"])
_TARGETS = _write_shapes([*_LENGTHS, *_ODD, *["0", "-1"] * 5])


class QueryText(NamedTuple):
    """The texts of a query, with the names that they have in the address of the page."""

    data: str
    shape: str
    special_zero: str = "true"
    operation: str = "static_reshape"
    expected: str = ""

    def read(self) -> ShapeRequest:
        """Returns the query, which requests all explanations."""
        question = Question(
            SHAPE_OPERATIONS[self.operation],
            read_unknown(parse_shape(self.data, "data.dims")),
            parse_shape(self.shape, "shape"),
            {"true": True, "false": False}.get(self.special_zero),
            expected=read_unknown(parse_shape(self.expected, "expected_shape.dims")) if self.expected.strip() else None,
        )
        return ShapeRequest(question, explain=True)

    def find_outcome(self) -> str:
        """Returns the output shape as text, or the reason of the rejection."""
        try:
            return format_dims(answer_question(self.read()).dims)
        except ReshapeError as error:
            return str(error.reason)


QUERY_TEXTS = st.builds(
    QueryText,
    _DATA,
    _TARGETS,
    st.sampled_from(["true", "false"]),
    st.sampled_from([*SHAPE_OPERATIONS]),
    st.just("") | _DATA,
)
"""Queries that can be parsed. Only some of them have a result."""

SHAPE_TEXTS = (
    _DATA | _TARGETS | st.text("N2*,()[].?-' \t/^xab+:%", max_size=14) | st.sampled_from(HOSTILE) | st.text(max_size=12)
)
"""Texts that may be shapes."""
