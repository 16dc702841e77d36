"""Dims of ONNX models as the rules take them, and back."""

import onnx
import pytest

from tensor_reshape.onnx.dim_params import DimParams
from tensor_reshape.rules.dims import AnyDim, format_dim, name_dim
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


@pytest.mark.parametrize(
    "name", ["N", "seq + past", "floor(height/8)", "unk__6", "onnx::Add_3_dim_0", "Add/Add_1_dim_0"]
)
def test_a_param_is_a_name_as_it_stands(name: str):
    assert read(name) == name_dim(name)


@pytest.mark.parametrize("text", ["batch*heads", "4*batch", "batch/2", "batch*batch"])
def test_what_is_made_of_names_of_the_model_is_a_product(text: str):
    assert read(text, "batch", "heads") == parse_dim(text)


def test_what_is_made_of_other_names_is_a_name():
    assert read("batch*heads", "batch") == name_dim("batch*heads")


@pytest.mark.parametrize("param", ["", "?", "-1", "None", "unknown", " ", -1, -(2**63)])
def test_what_exporters_write_for_an_unknown_dim_is_none(param: int | str):
    assert read(param) is None


@pytest.mark.parametrize("param", ["N" * 65, "a\nb", "a\tb", "x" * 5000])
def test_a_param_that_is_no_legal_name_has_another_which_is_written_back(param: str):
    params = DimParams([param, "dim_0"])
    (dim,) = params.read_declared(make_shape(param))
    assert isinstance(dim, type(name_dim("N")))
    assert len(format_dim(dim)) < 20
    assert format_dim(dim) != "dim_0"
    assert params.write_shape([dim]) == make_shape(param)


def test_an_unknown_dim_has_a_name_that_the_model_does_not_have():
    params = DimParams(["x_dim_0"])
    first, second = params.read_shape(("", "x"), make_shape("", "N"))
    assert (format_dim(first), format_dim(second)) == ("x_dim_0_", "N")
    assert params.read_shape(("", "x"), make_shape("", "N")) == (first, second)


def test_a_dim_is_open_unless_the_model_names_it():
    params = DimParams(["N"])
    named, made, other = params.read_shape(("", "x"), make_shape("N", "", "unk__0"))
    product = parse_dim("4*N")
    assert [params.is_open(dim) for dim in (4, named, product, made, other, None)] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


def test_dims_are_written_as_a_model_has_them():
    params = DimParams(["N", "C"])
    params.read_declared(make_shape("N", "C"))
    assert params.write_shape([4, parse_dim("N"), parse_dim("4*C"), parse_dim("2..8"), None]) == make_shape(
        4, "N", "4*C", "", ""
    ) or [dim.dim_param for dim in params.write_shape([parse_dim("2..8"), None]).dim] == ["", ""]


def test_a_product_of_a_name_that_is_another_in_the_model_is_not_written():
    long = "N" * 65
    params = DimParams([long])
    (dim,) = params.read_declared(make_shape(long))
    assert dim is not None
    product = parse_dim(f"4*{format_dim(dim)}")
    assert params.write_shape([product]).dim[0].dim_param == ""


def test_tensors_of_one_name_in_two_graphs_have_dims_of_two_names():
    params = DimParams([])
    dims = [params.read_shape((graph, "v"), make_shape("")) for graph in ("y.body", "z.body", "y.body")]
    assert [format_dim(dim) for (dim,) in dims] == ["v_dim_0", "v_dim_0_", "v_dim_0"]


def test_a_dim_that_only_has_bounds_is_given_a_name():
    (dim,) = DimParams([]).name_dims(("", "x"), [parse_dim("1..")])
    assert format_dim(dim) == "x_dim_0"
