"""Queries as people type them into the explorer, and the results that its page shows."""

from typing import Any

from hypothesis import strategies as st

from tensor_reshape.explorer.query_parser import QueryText
from tensor_reshape.explorer.responses import build_response
from tensor_reshape.rules.limits import DEFAULT_LIMITS
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from tensor_reshape.server.service.methods import ReshapeService

SERVICE = ReshapeService(DEFAULT_LIMITS)
LISTEN = ("127.0.0.1:50051",)

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
    "é" * 10_000,
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
QUERY_TEXTS = st.builds(
    QueryText,
    data=_DATA,
    shape=_TARGETS,
    operation=st.sampled_from(["", *OPERATIONS]),
    special_zero=st.sampled_from(["true", "false"]),
    expected=st.just("") | _DATA,
)
"""Queries that can be parsed. Only some of them have a result."""

TEXTS = st.sampled_from(HOSTILE) | st.text(max_size=20) | st.text("N2*,()[].?-' \t\n", max_size=12)
HOSTILE_TEXTS = st.builds(QueryText, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
"""Queries with arbitrary text in every field."""


def ask(request: ShapeRequest) -> ShapeAnswer:
    """Returns the response of the service."""
    return SERVICE.infer(lambda: request, lambda answer: answer, lambda: False)


def show(text: QueryText, *listen: str) -> dict[str, Any]:
    """Returns the data that the page gets, for a server with this address."""
    return build_response(text, ask, listen or LISTEN)
