"""Shapes as people type them, each item with its place in the text."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.typed_shapes import parse_shape, parse_strides, split_items

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
    "[3]": (3,),
    "N/(2*M)": (Dim(ANY, make_expression(1, [Symbol("N")], 2, [Symbol("M")])),),
}


@pytest.mark.parametrize(("text", "dims"), SHAPES.items(), ids=SHAPES.keys())
def test_a_shape_is_read(text: str, dims: tuple[AnyDim, ...] | None):
    assert parse_shape(text, "data.dims") == dims


@pytest.mark.parametrize(
    ("text", "index"), [("2,,3", 1), ("2,3,", 2), ("[2,]", 1), ("(,)", 0), ("2,[3]", 1), ("2,x y", 1), ("[2", 0)]
)
def test_an_item_that_is_no_dim_is_named_by_its_index(text: str, index: int):
    with pytest.raises(InvalidRequestError) as caught:
        parse_shape(text, "data.dims")
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNREADABLE, f"data.dims[{index}]")
    assert caught.value.metadata["index"] == str(index)


def list_items(text: str) -> list[str]:
    return [item.text for item in split_items(text) or ()]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("f(a, b), 2", ["f(a, b)", "2"]),
        ("(a)*2,(b)", ["(a)*2", "(b)"]),
        ("(a),(b)", ["(a)", "(b)"]),
        ("[(a, b)]", ["(a, b)"]),
        ("(f(a, b), 2)", ["f(a, b)", "2"]),
        ("(N*M)", ["(N*M)"]),
        ("'a, (b', 2", ["'a, (b'", "2"]),
        ("['it''s, x', 2]", ["'it''s, x'", "2"]),
    ],
)
def test_a_comma_in_parentheses_or_quotes_ends_no_item(text: str, items: list[str]):
    assert list_items(text) == items


@settings(max_examples=300, deadline=None)
@given(st.text("N2,*()[]'. ?\t", max_size=16) | st.text(max_size=16))
def test_each_item_stands_where_it_says(text: str):
    items = split_items(text) or ()
    assert [text[item.start : item.end] for item in items] == [item.text for item in items]
    assert all(item.text == item.text.strip() for item in items)
    assert all(before.end < after.start for before, after in pairwise(items))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["2", "-1", "N", "2..8", "?", "4*C"]), max_size=6), st.sampled_from(["{}", "[{}]"]))
def test_brackets_change_nothing(dims: list[str], form: str):
    assert list_items(form.format(",".join(dims))) == dims


def test_strides_are_numbers():
    assert parse_strides("[12, 4,1]", "data.strides") == (12, 4, 1)
    assert parse_strides("-4", "data.strides") == (-4,)


@pytest.mark.parametrize(("text", "index"), [("12,N", 1), ("...", 0), ("1,2..3", 1), (f"1,{2**63}", 1), ("1,", 1)])
def test_what_is_no_number_is_no_stride(text: str, index: int):
    with pytest.raises(InvalidRequestError) as caught:
        parse_strides(text, "data.strides")
    assert (caught.value.reason, caught.value.field) == (Reason.DIM_UNREADABLE, f"data.strides[{index}]")


@pytest.mark.parametrize("text", ["(" * 100_000, "[" * 100_000, "," * 10_000, "(,)" * 10_000])
def test_a_text_of_any_length_is_read_or_refused_in_a_short_sentence(text: str):
    with pytest.raises(InvalidRequestError) as caught:
        parse_shape(text, "shape")
    assert len(caught.value.message) < 1000
