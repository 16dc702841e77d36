"""Shapes as text: each item and its position."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.shape_parser import parse_shape, split_items

SHAPES: dict[str, tuple[AnyDim, ...] | None] = {
    "2,3,-1": (2, 3, -1),
    " 2 , 3 ": (2, 3),
    "": (),
    "  ": (),
    "[]": (),
    "()": (),
    "...": None,
    "unknown": None,
    "[...]": None,
    "[N, 4, 2..8, ?]": (name_dim("N"), 4, Dim(Interval(2, 8)), None),
    "(2, 3)": (2, 3),
    "(3,)": (3,),
    "2x3x4": (2, 3, 4),
    "0x-1": (0, -1),
    "[2 x 3]": (2, 3),
    "(2x3)": (2, 3),
    "Nx3": (name_dim("Nx3"),),
    "[3]": (3,),
    "N/(2*M)": (Dim(ANY, make_expression(1, [Symbol("N")], 2, [Symbol("M")])),),
}


# an item that is not a dim or a stride; its index
NO_DIMS = {"2,,3": 1, "2,3,": 2, "[2,]": 1, "(,)": 0, "2,[3]": 1, "2,x y": 1, "[2": 0, "2xN": 0, "2x": 0, "2x3,4": 0}
# A comma in parentheses or quotes does not end an item.
ITEMS = {
    "f(a, b), 2": ["f(a, b)", "2"],
    "(a)*2,(b)": ["(a)*2", "(b)"],
    "(a),(b)": ["(a)", "(b)"],
    "[(a, b)]": ["(a, b)"],
    "(f(a, b), 2)": ["f(a, b)", "2"],
    "(N*M)": ["(N*M)"],
    "'a, (b', 2": ["'a, (b'", "2"],
    "['it''s, x', 2]": ["'it''s, x'", "2"],
}


def list_items(text: str) -> list[str]:
    return [item.text for item in split_items(text) or ()]


def test_parse_shape_accepts_every_documented_notation():
    assert {text: parse_shape(text, "data.dims") for text in SHAPES} == SHAPES
    assert {text: list_items(text) for text in ITEMS} == ITEMS


def test_shape_syntax_error_contains_the_item_index():
    for text, index in NO_DIMS.items():
        with pytest.raises(InvalidRequestError) as caught:
            parse_shape(text, "data.dims")
        assert (caught.value.reason, caught.value.field) == (Reason.DIM_SYNTAX_INVALID, f"data.dims[{index}]"), text
        assert caught.value.metadata["index"] == str(index)


def test_long_invalid_shape_text_has_a_short_error():
    for text in ("(" * 100_000, "[" * 100_000, "," * 10_000, "(,)" * 10_000):
        with pytest.raises(InvalidRequestError) as caught:
            parse_shape(text, "shape")
        assert len(caught.value.message) < 1000


@examples(300)
@given(st.text("N2,*()[]'. ?\t", max_size=16) | st.text(max_size=16))
def test_split_items_returns_the_text_position_of_each_item(text: str):
    items = split_items(text) or ()
    assert [text[item.start : item.end] for item in items] == [item.text for item in items]
    assert all(item.text == item.text.strip() for item in items)
    assert all(before.end < after.start for before, after in pairwise(items))


@examples(100)
@given(st.lists(st.sampled_from(["2", "-1", "N", "2..8", "?", "4*C"]), max_size=6), st.sampled_from(["{}", "[{}]"]))
def test_brackets_around_a_shape_are_optional(dims: list[str], form: str):
    assert list_items(form.format(",".join(dims))) == dims
