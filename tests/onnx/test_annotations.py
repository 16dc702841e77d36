"""The shapes in models, and formulas of dims that nodes compute."""

import onnx
import pytest
from onnx import parser

from tensor_reshape.onnx import ModelReport, ModelVerdict, check_model
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

HEAD = '<ir_version: 10, opset_import: ["": 21]> '
TARGET = "s = Constant<value_ints=[{items}]>() y = Reshape(p, s)"


def make_model() -> onnx.ModelProto:
    return parser.parse_model(TEXT)


def make_params() -> DimParams:
    return DimParams(["N", "p", "q"])


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


def check(graph: str) -> ModelReport:
    return check_model(parser.parse_model(HEAD + graph))


@pytest.mark.parametrize(
    ("inputs", "node", "items", "requirement", "verdict"),
    [
        (
            "float[b,3,h,w] x",
            "MaxPool<kernel_shape=[2,2],strides=[2,2]>(x)",
            "0,147",
            "floor(h/2)*floor(w/2) = 49 unless b = 0",
            "frozen",
        ),
        ("float[b,9,h,w] x, float[9,9,1,1] k", "Conv(x, k)", "1,9,196", "b*h*w = 196", "frozen"),
        ("float[a,6] x, float[b,6] k", "Concat<axis=0>(x, k)", "4,-1", "2 divides a + b", "restricted"),
        ("float[b,6] x", "Concat<axis=0>(x, x)", "-1,8", "2 divides b", "restricted"),
        ("float[n,2] x", "Pad(x, z)", "4,-1", "2 divides n + 3", "restricted"),
        ("float[n,2] x", "Tile(x, t)", "9,-1", "3 divides n", "restricted"),
    ],
)
def test_condition_of_a_computed_dim_is_a_requirement_of_the_model(
    inputs: str, node: str, items: str, requirement: str, verdict: str
):
    text = "<int64[4] z = {1,0,2,0}, int64[2] t = {3,1}>"
    report = check(f"g ({inputs}) => (float[] y) {text} {{ p = {node} {TARGET.format(items=items)} }}")
    found = [str(one.condition) for one in report.requirements if one.verdict is not ModelVerdict.OK]
    assert (report.verdict.value, found, report.failed_probes) == (verdict, [requirement], ())


def test_target_computed_by_a_division_requires_an_even_dim():
    report = check(
        """g (float[h,6] x) => (float[] y) {
            n = Shape<start=0, end=1>(x) two = Constant<value_ints=[2]>() q = Div(n, two)
            r = Constant<value_ints=[2,6]>() s = Concat<axis=0>(q, r) y = Reshape<allowzero=1>(x, s)
        }"""
    )
    assert [str(one.condition) for one in report.requirements] == ["h = 2*floor(h/2)"]


def test_computed_dim_with_one_legal_value_freezes_the_model():
    report = check(
        f"g (float[2,3,h] x) => (float[] y) {{ p = MaxPool<kernel_shape=[2],strides=[2]>(x) "
        f"{TARGET.format(items='2,21')} }}"
    )
    assert (report.verdict, [str(one.condition) for one in report.requirements]) == (
        ModelVerdict.FROZEN,
        ["floor(h/2) = 7"],
    )


def test_two_formulas_of_equal_value_are_no_requirement():
    """The target computes the product of two dims in another way than the data."""
    report = check(
        """g (float[h,w,2] x, float[1,1,2] z) => (float[] y) {
            minus = Constant<value_ints=[-1,2]>() a = Reshape(x, minus) one = Constant<value_ints=[1,2]>()
            b = Reshape(z, one) p = Concat<axis=0>(b, a)
            d = Shape(x) i0 = Constant<value_ints=[0]>() i1 = Constant<value_ints=[1]>() h = Gather(d, i0)
            w = Gather(d, i1) n = Mul(w, h) m = Add(i1, n) r = Constant<value_ints=[2,1]>() s = Concat<axis=0>(m, r)
            y = Reshape<allowzero=1>(p, s)
        }"""
    )
    assert (report.verdict, report.failed_probes) == (ModelVerdict.OK, ())


def test_names_that_are_no_words_leave_other_formulas_as_they_are():
    report = check(
        f"""g (float["a b",2] x, float["/m/out:0",2] z, float[h,2] k) => (float[] y) {{
            p = Concat<axis=0>(k, k) c = Concat<axis=0>(x, z) {TARGET.format(items="4,-1,2")}
        }}"""
    )
    assert [str(one.condition) for one in report.requirements] == ["2 divides h"]


def test_formula_in_the_graph_of_a_node_is_known():
    report = check(
        f"""g (float[b,4] x, bool c) => (float[] y) {{
            y = If (c) <
                then_branch = t () => (float[] y) {{ p = Concat<axis=0>(x, x) {TARGET.format(items="3,-1")} }},
                else_branch = e () => (float[] i) {{ i = Identity(x) }}
            >
        }}"""
    )
    assert str(report.findings[0]) == "y: [2*b, 4] under [3, -1] is [3, 8*b/3]"


def test_declared_shape_of_an_operator_that_onnx_does_not_know_is_believed():
    report = check(
        "g (float[b,6] x) => (float[] y) <float[b,8] p> { p = x.y.Widen(x) " + TARGET.format(items="-1,4") + " }"
    )
    assert str(report.findings[0]) == "y: [b, 8] under [-1, 4] is [2*b, 4]"


@pytest.mark.parametrize("node", ["Concat<axis=0>(k, k)", "Reshape(z, k)"])
def test_items_of_a_long_list_get_no_names(node: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tensor_reshape.onnx.annotations.infer_symbolic_shapes", lambda *_, **__: pytest.fail("used"))
    report = check(f"g (int64[20000] k, float[n] z) => (float[] y) {{ p = {node} {TARGET.format(items=-1)} }}")
    assert report.findings[-1].node.output == "y"


@pytest.mark.parametrize(("size", "is_used"), [(1 << 14, True), ((1 << 14) + 1, False)])
def test_list_of_the_most_items_gets_names(size: int, is_used: bool, monkeypatch: pytest.MonkeyPatch):
    calls: list[object] = []
    monkeypatch.setattr("tensor_reshape.onnx.annotations.infer_symbolic_shapes", lambda model, **_: calls.append(model))
    for node, items in (("Concat<axis=0>(k, k)", size // 2), ("Reshape(z, k)", size)):
        calls.clear()
        odd = items * 2 < size and "Concat" in node
        text = f"g (int64[{items + odd}] k, float[n] z) => (float[] y) {{ p = {node} {TARGET.format(items=-1)} }}"
        check_model(parser.parse_model(HEAD + text.replace("y = Reshape(p, s)", "y = Relu(p)")), probe_seconds=0.1)
        assert bool(calls) == is_used, node
