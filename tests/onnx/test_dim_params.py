"""Dims of models, and names of dims that are formulas of other names."""

import onnx
import pytest

from tensor_reshape.onnx.dim_params import DimParams, compute, read_formula
from tensor_reshape.rules.dims import AnyDim, Dim, format_dim, name_dim
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
