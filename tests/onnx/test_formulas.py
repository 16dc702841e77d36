"""Names of dims that are formulas of other names."""

import pytest

from tensor_reshape.onnx.formulas import compute, list_words, read_formula


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("past + length", 17),
        ("2*past - length", 1),
        ("floor(length/2)", 5),
        ("ceiling(length/2)", 6),
        ("2*floor(length/2 - 1/2) + 2", 12),
        ("length//2", 5),
        ("length % 4", 3),
        ("Mod(length, 4)", 3),
        ("Max(past, length)", 11),
        ("Min(past, length)", 6),
        ("past**2", 36),
        ("-past + length", 5),
    ],
)
def test_formula_has_its_value(text: str, value: int):
    formula = read_formula(text)
    assert formula is not None
    assert compute(formula, {"past": 6, "length": 11}) == value


@pytest.mark.parametrize(
    "text", ["past - length", "length/2", "past/zero", "past + other", "past**99", "past + 0.5", "sqrt(length)"]
)
def test_formula_without_a_whole_value_has_none(text: str):
    formula = read_formula(text)
    assert formula is not None
    assert compute(formula, {"past": 6, "length": 11, "zero": 0}) is None


@pytest.mark.parametrize(
    "text", ["", "past", "7", "2 + 3", "past +", "past.length + 1", "[past, 1]", "(" * 300, "a" * 2000]
)
def test_other_text_is_no_formula(text: str):
    assert read_formula(text) is None


def test_words_of_a_formula_are_not_its_functions():
    formula = read_formula("floor(height/2)*floor(width/2) + 1")
    assert formula is not None
    assert list_words(formula) == {"height", "width"}
