"""The notation of dims and shapes: parsing, errors, round trips, and the positions of items."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, format_dim, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.names import is_name
from tensor_reshape.rules.notation import parse_dim, parse_shape, split_items

N = Symbol("N")

TEXTS: dict[str, AnyDim] = {
    "4": 4,
    "-1": -1,
    " 7 ": 7,
    "?": None,
    "2..8": Dim(Interval(2, 8)),
    "2..": Dim(Interval(2, None)),
    "N": name_dim("N"),
    "N:1..8": name_dim("N", 1, 8),
    "N:1..": name_dim("N", 1),
    "4*N": Dim(ANY, make_expression(4, [N])),
    "4*N:4..8": Dim(Interval(4, 8), make_expression(4, [N])),
    "seq + past : 2..8": name_dim("seq + past", 2, 8),
    "'2..8'": name_dim("2..8"),
    "'a:1..8':1..8": name_dim("a:1..8", 1, 8),
}
# `test_names` has text that is not a product either.
NO_DIMS = ["", "..", "..4", "1..2..3", "N:", "N M", "None", "unknown", "N/0", "2*3", "N:1..8:1..8", "onnx::1..8"]
LONG = ["9" * 100_000, "N*" * 100_000 + "N", "(" * 100_000, "1.." + "9" * 5000]


def read_or_reject(text: str) -> str:
    """Returns the parsed text, or its error, in short form."""
    try:
        dim = parse_dim(text)
    except InvalidRequestError as error:
        return error.reason if len(error.message) < 1000 else error.message
    return "a dim" if dim is None or isinstance(dim, int | Dim) else repr(dim)


def test_parse_dim_accepts_every_documented_notation():
    assert {text: parse_dim(text) for text in TEXTS} == TEXTS


def test_invalid_dim_text_has_a_short_error():
    assert {text[:12]: read_or_reject(text) for text in (*NO_DIMS, *LONG)} == {
        text[:12]: "DIM_SYNTAX_INVALID" for text in (*NO_DIMS, *LONG)
    }


@examples(300)
@given(st.text(max_size=12) | st.text("N2*/^().:?- ", max_size=12))
def test_parse_dim_parses_or_rejects_any_text(text: str):
    assert read_or_reject(text) in {"a dim", "DIM_SYNTAX_INVALID"}


names = st.sampled_from(["N", "M", "batch", "a + b", "f(N)", "4*C", "1..2", "?"]) | st.text(max_size=8).filter(is_name)
symbols = st.lists(names.map(Symbol), max_size=4)
numbers = st.integers(1, 2**63 - 1)
terms = st.builds(make_expression, numbers, symbols.filter(bool), numbers, symbols).map(lambda one: Dim(ANY, one))
intervals = st.builds(
    lambda low, more: Interval(low, None if more is None else low + more), numbers, st.none() | numbers
)


@examples(300)
@given(st.integers(-(10**39), 10**39) | st.none() | intervals.map(Dim) | terms)
def test_formatted_dim_is_parsed_to_the_same_dim(dim: AnyDim):
    assert parse_dim(format_dim(dim)) == dim


@examples(200)
@given(st.lists(terms | st.none() | st.integers(-1, 9), max_size=4))
def test_formatted_shape_is_parsed_to_the_same_shape(dims: list[AnyDim]):
    assert parse_shape(",".join(map(format_dim, dims)), "data") == tuple(dims)


def test_quoted_dim_name_may_contain_operators():
    for text in ("2/('^')", "N/('^'*N)", "2*('**')"):
        dim = parse_dim(text)
        assert parse_dim(format_dim(dim)) == dim


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
NO_SHAPES = {"2,,3": 1, "2,3,": 2, "[2,]": 1, "(,)": 0, "2,[3]": 1, "2,x y": 1, "[2": 0, "2xN": 0, "2x": 0, "2x3,4": 0}
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
    for text, index in NO_SHAPES.items():
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
