"""The shapes of Reshape outputs in a model: reading, removing and writing them."""

import onnx
from onnx import parser

from tensor_reshape.onnx.annotations import read_shapes, rename_params, strip_shapes, write_shapes
from tensor_reshape.onnx.dim_params import DimParams
from tensor_reshape.onnx.models import infer_model
from tensor_reshape.rules.dims import name_dim
from tensor_reshape.rules.notation import parse_dim

TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x, bool c) => (float[N,?] y, float[N,3,4] r)
<float[N,5] h>
{ s = Constant<value_ints=[0,-1]>() h = Reshape(x, s) r = Relu(x)
  y = If (c) < then_branch = a () => (float[p,q] t) { t = Reshape(x, s) },
    else_branch = b () => (e) { e = Relu(h) } >
}"""
N = name_dim("N")


def make_model() -> onnx.ModelProto:
    return parser.parse_model(TEXT)


def make_params() -> DimParams:
    return DimParams(["N", "p", "q"])


def test_declared_reshape_output_shapes_are_read_from_nested_graphs():
    assert read_shapes(make_model(), make_params()) == {
        ("", "h"): (N, 5),
        ("y.then_branch", "t"): (name_dim("p"), name_dim("q")),
    }


def test_strip_shapes_removes_only_reshape_output_shapes():
    model = make_model()
    strip_shapes(model)
    assert read_shapes(model, make_params()) == {}
    assert model.graph.output[1].type.tensor_type.HasField("shape")


def test_written_shape_annotations_are_read_back():
    model, params = make_model(), make_params()
    strip_shapes(model)
    params.read_declared(make_model().graph.output[0].type.tensor_type.shape)
    shapes = {("", "h"): (N, 12), ("y.then_branch", "t"): (N, 12)}
    write_shapes(model, infer_model(make_model())[0], shapes, params)
    assert read_shapes(model, params) == shapes


def test_write_shapes_keeps_shapes_declared_in_the_model():
    model, params = make_model(), make_params()
    write_shapes(model, infer_model(model)[0], {("", "h"): (N, 12)}, params)
    assert read_shapes(model, params)["", "h"] == (N, 5)
    # an unknown dim of the model is written
    model.graph.value_info[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    write_shapes(model, infer_model(model)[0], {("", "h"): (N, 12)}, params)
    assert read_shapes(model, params)["", "h"] == (N, 5)
    # a shape of another rank is not changed
    strip_shapes(model)
    model.graph.value_info[0].CopyFrom(onnx.helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [None]))
    write_shapes(model, infer_model(make_model())[0], {("", "h"): (N, 12)}, params)
    assert read_shapes(model, params)["", "h"] == (None,)


def test_write_shapes_skips_tensors_of_unknown_type():
    model, params = make_model(), make_params()
    strip_shapes(model)
    write_shapes(model, onnx.ModelProto(), {("", "h"): (N, 12)}, params)
    assert read_shapes(model, params) == {}


def test_rename_params_adds_a_suffix_to_unknown_dim_names():
    model = make_model()
    rename_params(model, DimParams(["N", "p"]), "_onnx")
    assert read_shapes(model, DimParams([])) == {
        ("", "h"): (N, 5),
        ("y.then_branch", "t"): (name_dim("p"), name_dim("q_onnx")),
    }
    model.graph.value_info[0].type.tensor_type.shape.dim[0].dim_param = "4*N"
    rename_params(model, make_params(), "_onnx")
    assert read_shapes(model, make_params())["", "h"][0] == parse_dim("4*N")
