"""Dims of models, and names of dims that are formulas of other names."""

import re
from fractions import Fraction
from itertools import product
from math import ceil, floor

import onnx
import pytest

from tensor_reshape.onnx.dim_params import DimParams, compute, read_formula
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, find_bounds, format_dim, name_dim
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim


def make_shape(*dims: int | str) -> onnx.TensorShapeProto:
    shape = onnx.TensorShapeProto()
    for dim in dims:
        written = shape.dim.add()
        if isinstance(dim, int):
            written.dim_value = dim
        else:
            written.dim_param = dim
    return shape


def read(param: int | str, *others: str) -> AnyDim:
    (dim,) = DimParams([str(param), *others]).read_declared(make_shape(param))
    return dim


def test_onnx_dim_param_is_parsed_as_name_product_or_unknown():
    names = ["N", "seq + past", "floor(height/8)", "unk__6", "onnx::Add_3_dim_0", "Add/Add_1_dim_0"]
    assert [read(name) for name in names] == [name_dim(name) for name in names]
    products = ["batch*heads", "4*batch", "batch/2", "batch*batch"]
    assert [read(text, "batch", "heads") for text in products] == list(map(parse_dim, products))
    assert read("batch*heads", "batch") == name_dim("batch*heads")  # heads is not a name in the model
    unknown: list[int | str] = ["", "?", "-1", "None", "unknown", " ", -1, -(2**63)]
    assert [read(param) for param in unknown] == [None] * len(unknown)


def test_onnx_dim_value_is_known_from_zero_to_max_dim():
    assert [read(size) for size in (0, 1, MAX_DIM)] == [0, 1, MAX_DIM]


def test_invalid_onnx_dim_param_is_restored_when_written():
    for param in ("N" * 65, "a\nb", "a\tb", "x" * 5000):
        params = DimParams([param, "dim_0"])
        (dim,) = params.read_declared(make_shape(param))
        assert isinstance(dim, Dim)
        assert (len(format_dim(dim)) < 20, format_dim(dim) != "dim_0") == (True, True)
        assert params.write_shape([dim]) == make_shape(param)
        # A product of it would have another name in the model.
        assert params.write_shape([parse_dim(f"4*{format_dim(dim)}")]).dim[0].dim_param == ""


def test_unknown_onnx_dim_gets_an_unused_name():
    params = DimParams(["x_dim_0"])
    first, second = params.read_shape(("", "x"), make_shape("", "N"))
    assert (format_dim(first), format_dim(second)) == ("x_dim_0_", "N")
    assert params.read_shape(("", "x"), make_shape("", "N")) == (first, second)


def test_onnx_dim_without_a_name_counts_as_unresolved():
    params = DimParams(["N"])
    named, made, other = params.read_shape(("", "x"), make_shape("N", "", "unk__0"))
    assert [params.is_open(dim) for dim in (4, named, parse_dim("4*N"))] == [False] * 3
    assert [params.is_open(dim) for dim in (made, other, None)] == [True] * 3


def test_dims_are_written_as_onnx_dim_value_or_dim_param():
    params = DimParams(["N", "C"])
    params.read_declared(make_shape("N", "C"))
    written = params.write_shape([4, parse_dim("N"), parse_dim("4*C"), parse_dim("2..8"), None]).dim
    assert [dim.dim_value or dim.dim_param for dim in written] == [4, "N", "4*C", "", ""]


def test_equal_tensor_names_in_two_graphs_get_different_dim_names():
    params = DimParams([])
    dims = [params.read_shape((graph, "v"), make_shape("")) for graph in ("y.body", "z.body", "y.body")]
    assert [format_dim(dim) for (dim,) in dims] == ["v_dim_0", "v_dim_0_", "v_dim_0"]


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


TERMS = ("past", "length", "0", "1", "3", "-2", "past/length", "length - past", "8", "9", "1/2")
FUNCTIONS = {"max": max, "Max": max, "min": min, "Min": min, "mod": Fraction.__mod__, "Mod": Fraction.__mod__}
ROUNDED = {"floor": floor, "ceil": ceil, "ceiling": ceil}
PAIRS = [f"({{}}) {symbol} ({{}})" for symbol in ("+", "-", "*", "/", "//", "%", "**")]
PAIRS += [f"{name}({{}}, {{}})" for name in FUNCTIONS]
PAIRS += [f"{name}(({{}})*({{}})/3)" for name in ROUNDED]


def evaluate(text: str, sizes: dict[str, int]) -> Fraction:
    """Returns the value that Python computes with fractions."""
    exact = re.sub(r"\b(\d+)\b", r"Fraction(\1)", text)
    names = {name: Fraction(size) for name, size in sizes.items()}
    return Fraction(eval(exact, {"Fraction": Fraction, **FUNCTIONS, **ROUNDED}, names))  # only texts of this module


@pytest.mark.parametrize("form", PAIRS)
def test_formula_of_two_terms_has_the_value_of_exact_arithmetic(form: str):
    for pair in product(TERMS, repeat=2):
        text, sizes = form.format(*pair), {"past": 6, "length": 11}
        formula = read_formula(text)
        if formula is None:
            assert not re.search("past|length", text)
            continue
        power = evaluate(pair[1], sizes) if "**" in form else Fraction(1)
        value = None
        if (
            power.denominator == 1
            and 0 <= power <= 8
            and not (re.search("/|%|od", form) and _is_zero(form, pair, sizes))
        ):
            value = evaluate(text, sizes)
        whole = None if value is None or value.denominator != 1 or value < 0 else int(value)
        assert compute(formula, sizes) == whole, text


def _is_zero(form: str, pair: tuple[str, ...], sizes: dict[str, int]) -> bool:
    """Whether a formula divides by its second term, which is 0."""
    return not form.startswith(tuple(ROUNDED)) and evaluate(pair[1], sizes) == 0


def test_longest_formula_and_largest_power_are_computed():
    longest = "past+" + "0" * 995
    assert (len(longest), read_formula(longest) is not None, read_formula(longest + "0")) == (1000, True, None)
    with_power = [read_formula(f"past**{power}") for power in (8, 9)]
    assert [one and compute(one, {"past": 2}) for one in with_power] == [256, None]


# a text; whether it is admitted, and the formulas that then count as names
ADMITTED: dict[str, tuple[bool, set[str]]] = {
    "past": (True, set()),
    "2*past": (True, set()),
    "past*length/3": (True, set()),
    "past + length": (True, {"past + length"}),
    "2*(past + length)": (True, {"past + length"}),
    "floor(past/2)*length": (True, {"floor(past/2)"}),
    "other": (False, set()),
    "past + other": (False, set()),
    "past*other": (False, set()),
    "past/0": (False, set()),
    "5": (False, set()),
    "12/5": (False, set()),
    "": (False, set()),
    "past length": (False, set()),
}


@pytest.mark.parametrize("text", ADMITTED)
def test_formula_of_names_in_the_model_is_admitted(text: str):
    params = DimParams(["past", "length"])
    assert (params.admit(text), params.formulas) == ADMITTED[text]
    assert all(params.has(formula) and params.are_names({formula}) for formula in params.formulas)
    assert not params.are_names({"past", "other"})


def test_bounds_of_a_name_are_those_of_its_dim():
    params = DimParams(["n", "m"], {"n": Interval(2, 6)})
    bounds = [find_bounds(dim) for dim in params.read_declared(make_shape("n", "m"))]
    assert bounds == [Interval(2, 6), Interval(0, None)]
