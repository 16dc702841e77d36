"""Names of dims: names that need no quotes in a text, and products of names."""

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.names import (
    MAX_SYMBOL_CHARACTERS,
    is_name,
    read_multiple,
    read_product,
    write_factor,
    write_name,
)
from tensor_reshape.rules.products import Product

# How torch, tf2onnx, optimum and onnxruntime's symbolic shape inference name dims.
EXPORTED = [
    *["batch_size", "seq + past", "past_sequence_length + 1", "floor(height/8)"],
    *["floor(floor(height/2 - 1/2)/2 - 1/2) + 1", "input.1_dynamic_axes_2", "onnx::Reshape_12_dim_0"],
    *["/model/Reshape_output_0_dim_1", "unk__6", "Max(1, s0)", "s0//8", "Mod(s0, 2)", "2*seq + 1", "-s0 + 4"],
    *["0.5*width + 1", "batch-size", "größe"],
]
PRODUCTS: dict[str, Product[str]] = {
    "N": Product(1, ("N",)),
    "4*N": Product(4, ("N",)),
    "2*N*3": Product(6, ("N",)),
    "N/2": Product(1, ("N",), 2),
    "N/2*M": Product(1, ("N", "M"), 2),
    "N/2/3": Product(1, ("N",), 6),
    "N/(2*M)": Product(1, ("N",), 2, ("M",)),
    "N/(M/2)": Product(2, ("N",), 1, ("M",)),
    "4*(N/2)": Product(4, ("N",), 2),
    "N^2": Product(1, ("N", "N")),
    "N**2": Product(1, ("N", "N")),
    "4*(seq + past)": Product(4, ("seq + past",)),
    "(seq + past)": Product(1, ("seq + past",)),
    "(seq + past)^2": Product(1, ("seq + past", "seq + past")),
    "2*floor(h/8)": Product(2, ("floor(h/8)",)),
    "floor(h/8)^2/2": Product(1, ("floor(h/8)", "floor(h/8)"), 2),
    "'4*C'": Product(1, ("4*C",)),
    "2*'a b'": Product(2, ("a b",)),
    "'it''s'": Product(1, ("it's",)),
    "input.1*4": Product(4, ("input.1",)),
    "7": Product(7, ()),
}
NEITHER = [
    *["", "N M", "4N", "N:4", "(N", "N)", "f(", "f()", "f(,)", "f(a b)", "a,b", "N*", "N^", "N^0", "N^100", "(N*M)^2"],
    *["None", "unknown", "''", "'N", "?", "2..8", "1.5", "2-3", "a < b", "N!", "((N^9)^9)^9", "'a' + b", "N/"],
]
# Names that would be read in another way are in quotes.
QUOTED = {
    "N": "N",
    "4": "'4'",
    "4*C": "'4*C'",
    "N/2": "'N/2'",
    "2..8": "'2..8'",
    "?": "'?'",
    "None": "'None'",
    " N": "' N'",
    "(a + b)": "'(a + b)'",
    "it's": "'it''s'",
}


def test_dim_product_is_parsed_from_left_to_right():
    assert {text: read_product(text) for text in PRODUCTS} == PRODUCTS
    assert [text for text in NEITHER if read_product(text) is not None] == []


def test_dim_name_is_quoted_only_when_ambiguous():
    assert {name: (write_name(name), read_product(name)) for name in EXPORTED} == {
        name: (name, Product(1, (name,))) for name in EXPORTED
    }
    assert {name: write_name(name) for name in QUOTED} == QUOTED


def test_dim_name_that_is_a_formula_is_parenthesized_as_factor():
    names = ["N", "input.1", "floor(h/8)", "a + b", "-a", "a b"]
    assert [write_factor(name) for name in names] == ["N", "input.1", "floor(h/8)", "(a + b)", "(-a)", "'a b'"]


# name, another name; the number of times that each of them contains their common base
MULTIPLES: dict[tuple[str, str], tuple[int, int]] = {
    ("b + 1", "2*b + 2"): (1, 2),
    ("3 + 3*b", "b+2 - 1"): (3, 1),
    ("seq + past", "2*past + 2*seq"): (1, 2),
    ("2*a - 4*b", "3*a - 6*b"): (2, 3),
    ("b + b", "b"): (2, 1),
    ("input.1 + 1", "onnx::x + input.1 + 1 - onnx::x"): (1, 1),
}
UNRELATED = [
    "b",
    "2*b",
    "b + 1",
    "b + 2",
    "b - 1",
    "1 - b",
    "2*b + 1",
    "a - b",
    "b - a",
    "a + b",
    "b - b",
    "4*C",
    "1.5*b + 1",
    "b/2 + 1",
    "b*c + 1",
    "b**2 + 1",
    "f(b) + 1",
    "2*(b + 1)",
    "(b + 1) + 1",
    "b//2 + 1",
    "b +",
    "+ b",
    "-b",
    "a b + 1",
]


def test_sums_with_a_common_base_are_multiples_of_it():
    for names, factors in MULTIPLES.items():
        first, second = map(read_multiple, names)
        assert (first.base, first.factor, second.factor) == (second.base, *factors), names
    bases = [read_multiple(name).base for name in UNRELATED]
    assert len({*bases}) == len(bases)


def test_sum_without_a_difference_is_at_least_its_number():
    least = {"b + 1": 1, "2*b + 2": 2, "a + b": 0, "b + 3 - 1": 2, "b - 1": 0, "3 - b": 0, "f(b) + 1": 0, "b": 0}
    assert {name: read_multiple(name).least for name in least} == least


NAMES = (st.text(max_size=12) | st.text("aN2*/^()+-.:?,' ", max_size=12) | st.sampled_from(EXPORTED)).filter(is_name)


@examples(500)
@given(NAMES, NAMES)
def test_every_valid_dim_name_survives_a_round_trip(name: str, other: str):
    assert read_product(write_name(name)) == Product(1, (name,))
    text = f"6*{write_factor(name)}/{write_factor(other)}"
    assert read_product(text) == Product(6, (name,), 1, (other,))


def test_long_dim_text_is_parsed_without_deep_recursion():
    deep = ["(" * 4000, "(" * 2000 + "N" + ")" * 2000, "f(" * 1000 + "N" + ")" * 1000, "'" * 4001, "-" * 4000]
    for text in ("N*" * 2000 + "N", *deep):
        product = read_product(text)
        assert product is None or len(product.factors) == 2001, text[:3]


def test_dim_name_must_be_short_and_printable():
    assert [is_name(name) for name in ("N" * MAX_SYMBOL_CHARACTERS, "a b")] == [True, True]
    assert [is_name(name) for name in ("", "N" * 65, "N\n")] == [False] * 3
