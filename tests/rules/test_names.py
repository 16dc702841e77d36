"""Names of dims: which are bare in a text, and the products of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.names import MAX_SYMBOL_CHARACTERS, Product, is_name, read_product, write_factor, write_name

# How torch, tf2onnx, optimum and onnxruntime's symbolic shape inference name dims.
EXPORTED = [
    "batch_size",
    "seq + past",
    "past_sequence_length + 1",
    "floor(height/8)",
    "floor(floor(height/2 - 1/2)/2 - 1/2) + 1",
    "input.1_dynamic_axes_2",
    "onnx::Reshape_12_dim_0",
    "/model/Reshape_output_0_dim_1",
    "unk__6",
    "Max(1, s0)",
    "s0//8",
    "Mod(s0, 2)",
    "2*seq + 1",
    "-s0 + 4",
    "0.5*width + 1",
    "batch-size",
    "größe",
]
PRODUCTS: dict[str, Product] = {
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
    "7": Product(7),
}


@pytest.mark.parametrize(("text", "product"), PRODUCTS.items(), ids=PRODUCTS.keys())
def test_a_product_is_read_from_left_to_right(text: str, product: Product):
    assert read_product(text) == product


@pytest.mark.parametrize("name", EXPORTED)
def test_what_an_exporter_names_a_dim_is_a_name_as_it_stands(name: str):
    assert (write_name(name), read_product(name)) == (name, Product(1, (name,)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N M",
        "4N",
        "N:4",
        "(N",
        "N)",
        "f(",
        "f()",
        "f(,)",
        "f(a b)",
        "a,b",
        "N*",
        "N^",
        "N^0",
        "N^100",
        "(N*M)^2",
        "None",
        "unknown",
        "''",
        "'N",
        "?",
        "2..8",
        "1.5",
        "2-3",
        "a < b",
        "N!",
        "((N^9)^9)^9",
        "'a' + b",
    ],
)
def test_what_is_neither_a_product_nor_a_name_is_none(text: str):
    assert read_product(text) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("N", "N"),
        ("4", "'4'"),
        ("4*C", "'4*C'"),
        ("N/2", "'N/2'"),
        ("2..8", "'2..8'"),
        ("?", "'?'"),
        ("None", "'None'"),
        (" N", "' N'"),
        ("(a + b)", "'(a + b)'"),
        ("it's", "'it''s'"),
    ],
)
def test_a_name_that_would_be_read_otherwise_stands_in_quotes(name: str, text: str):
    assert write_name(name) == text


def test_a_formula_stands_in_parentheses_as_a_factor():
    names = ["N", "input.1", "floor(h/8)", "a + b", "-a", "a b"]
    assert [write_factor(name) for name in names] == ["N", "input.1", "floor(h/8)", "(a + b)", "(-a)", "'a b'"]


NAMES = (st.text(max_size=12) | st.text("aN2*/^()+-.:?,' ", max_size=12) | st.sampled_from(EXPORTED)).filter(is_name)


@settings(max_examples=500, deadline=None)
@given(NAMES)
def test_every_legal_name_is_read_back(name: str):
    assert read_product(write_name(name)) == Product(1, (name,))


@settings(max_examples=300, deadline=None)
@given(NAMES, NAMES)
def test_every_legal_name_is_read_back_as_a_factor(name: str, other: str):
    text = f"6*{write_factor(name)}/{write_factor(other)}"
    assert read_product(text) == Product(6, (name,), 1, (other,))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4000,
        "(" * 2000 + "N" + ")" * 2000,
        "N*" * 2000 + "N",
        "f(" * 1000 + "N" + ")" * 1000,
        "'" * 4001,
        "-" * 4000,
    ],
    ids=lambda text: text[:3],
)
def test_a_long_text_is_read_or_not_without_recursion_to_its_depth(text: str):
    product = read_product(text)
    assert product is None or len(product.factors) == 2001


@pytest.mark.parametrize(
    ("name", "legal"),
    [("", False), ("N" * MAX_SYMBOL_CHARACTERS, True), ("N" * 65, False), ("N\n", False), ("a b", True)],
)
def test_a_name_is_of_few_printable_characters(name: str, legal: bool):
    assert is_name(name) is legal
