"""Shapes of whole models for concrete sizes, and what is named as unknown.

`runs.txt` has models, the shapes of their inputs, and everything that a run returns about the nodes.
"""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper, parser

from model_tables import ModelRow, read_models
from tensor_reshape.onnx.interpreter import Decision, Dims, Interpreter, OutOfTimeError, Run
from tensor_reshape.onnx.models import ModelSource, expand_model

HEAD = '<ir_version: 10, opset_import: ["": 21]> '


def parse(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + text)


def run(model: str | onnx.ModelProto, **sizes: Dims) -> Run:
    loaded = parse(model) if isinstance(model, str) else model
    return Interpreter(ModelSource(expand_model(loaded))).run(sizes)


def decide(model: str | onnx.ModelProto, output: str = "y", **sizes: Dims) -> Decision:
    return run(model, **sizes).decisions["", output]


TARGET = "g (float[b,t,64] x) => (float[] y) <int64[1] m = {{-1}}, int64[1] u = {{2}}> {{ {nodes} y = Reshape(x, s) }}"


def test_targets_are_computed_by_the_reference_implementation():
    nodes = "d = Shape(x) m = Constant<value_ints=[3, 2, 0]>() z = Constant<value_ints=[1, 1, 64]>() q = Max(m, z)"
    text = TARGET.format(nodes=f"{nodes} k = Constant<value_ints=[-1]>() s = Concat<axis=0>(k, q)")
    assert decide(text, x=(4, 6, 64)) == Decision((4, 6, 64), (-1, 3, 2, 64), (4, 3, 2, 64))


def test_constant_needs_no_type_of_its_attribute():
    for kind in (onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.GRAPH):
        model = parse(TARGET.format(nodes="s = Constant<value_ints=[2, -1]>()"))
        model.graph.node[0].attribute[0].type = kind
        assert decide(model, x=(4, 6, 64)).output == (2, 768)


@pytest.mark.parametrize(
    ("nodes", "output"),
    [
        ("s = Constant<value_ints=[0, -1]>()", (4, 384)),
        ("d = Shape<start=1>(x) s = Concat<axis=0>(m, d)", (4, 6, 64)),
        ("d = Shape(x) i = Constant<value_ints=[2, 1, 0]>() s = Gather(d, i)", (64, 6, 4)),
        ("d = Shape(x) s = ReduceProd<keepdims=1>(d)", (1536,)),
        ("n = Size(x) a = Constant<value_ints=[0]>() s = Unsqueeze(n, a)", (1536,)),
        (
            "d = Shape(x) t = Constant<value_ints=[2, 1, 1]>() q = Div(d, t) s = Concat<axis=0>(u, q)",
            (2, 2, 6, 64),
        ),
        (
            "d = Shape(x) t = Constant<value_ints=[1, 3]>() v = Reshape(d, t) w = Transpose(v) s = Reshape(w, m)",
            (4, 6, 64),
        ),
    ],
)
def test_computed_target_gives_the_output_shape(nodes: str, output: Dims):
    assert decide(TARGET.format(nodes=nodes), x=(4, 6, 64)).output == output


def test_reshape_follows_the_rules_where_onnx_accepts_a_wrong_target():
    decision = decide(
        "g (float[a,b] x) => (float[] y) { s = Constant<value_ints=[4,2]>() y = Reshape(x, s) }", x=(5, 3)
    )
    assert str(decision.error and decision.error.reason) == "VOLUME_MISMATCH"


def test_declared_shape_of_an_intermediate_tensor_is_not_read():
    text = "g (float[b,t,64] x) => (float[] y) <float[b,5,64] c> { c = Relu(x) s = Constant<value_ints=[-1,64]>() "
    assert decide(f"{text} y = Reshape(c, s) }}", x=(3, 9, 64)).data == (3, 9, 64)


def test_rejection_of_a_node_leaves_later_nodes_undecided_because_of_it():
    text = "g (float[a,b] x) => (float[] z) { s = Constant<value_ints=[4,2]>() y = Reshape(x, s) z = Reshape(y, s) }"
    found = run(text, x=(5, 3))
    assert list(found.rejections) == [("", "y")]
    assert found.decisions["", "z"].error is None or found.decisions["", "z"].data is None


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
def test_kernel_that_is_larger_than_its_input_cannot_run(operator: str):
    text = f"g (float[1,1,h,4] x) => (float[] y) {{ y = {operator}<kernel_shape=[3,3]>(x) }}"
    assert [bool(run(text, x=(1, 1, size, 4)).failures) for size in (2, 3)] == [True, False]


def test_operator_without_a_schema_stops_only_what_depends_on_it():
    model = parse("g (float[n,6] x) => (float[] y, float[] z) { s = Constant<value_ints=[-1,3]>() z = Reshape(x, s) }")
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    model.graph.node.append(helper.make_node("Fold", ["x"], ["f"], "fold", domain="com.example"))
    model.graph.node.append(helper.make_node("Reshape", ["f", "s"], ["y"]))
    found = run(model, x=(4, 6))
    assert (found.decisions["", "z"].output, found.decisions["", "y"].cause) == ((8, 3), "com.example Fold fold")


def test_target_from_an_input_is_undecided_and_names_the_input():
    text = "g (float[n,6] x, int64[2] s) => (float[] y) { y = Reshape(x, s) }"
    assert decide(text, x=(4, 6)).cause == "the values of the input s"


BRANCHES = """g (float[n,12] x, bool c) => (float[] y) {
    k = Constant<value = bool {1}>()
    y = If(COND) <
        then_branch = a () => (float[] p) { s = Constant<value_ints=[2,-1]>() p = Reshape(x, s) },
        else_branch = b () => (float[] q) { t = Constant<value_ints=[5,-1]>() q = Reshape(x, t) }
    >
}"""


def test_only_the_branch_that_runs_is_computed():
    found = run(BRANCHES.replace("COND", "k"), x=(4, 12))
    assert list(found.decisions) == [("y.then_branch", "p")]
    assert found.tensors["", "y"].dims == (2, 24)


def test_rejection_in_a_branch_that_may_not_run_is_undecided():
    found = run(BRANCHES.replace("COND", "c"), x=(4, 12))
    assert found.rejections == {}
    assert found.decisions["y.else_branch", "q"].cause == "the condition of If y"


LOOP = """g (float[n,12] x, int64 m) => (float[] y, float[] all) {
    t = Constant<value_int=3>()
    c = Constant<value = bool {1}>()
    y, all = Loop(COUNT, c, x) <body = g (int64 i, bool go, float[] h) => (bool go, float[] r, float[] o) {
        s = Constant<value_ints=[TARGET]>()
        r = Reshape(h, s)
        o = Identity(r)
    }>
}"""


def test_body_of_a_loop_keeps_the_shapes_of_its_states():
    found = run(LOOP.replace("COUNT", "t").replace("TARGET", "-1,12"), x=(4, 12))
    assert found.decisions["y.body", "r"].output == (4, 12)
    assert found.tensors["", "y"].dims == (4, 12)
    assert found.tensors["", "all"].dims == (None, 4, 12)


def test_state_of_a_loop_that_changes_its_shape_is_unknown():
    found = run(LOOP.replace("COUNT", "t").replace("TARGET", "-1,6"), x=(4, 12))
    assert found.tensors["", "y"].dims in {(None, None), (None, 6)}


def test_rejection_in_a_loop_counts_only_if_the_loop_runs():
    text = LOOP.replace("TARGET", "-1,7")
    sure, unsure = run(text.replace("COUNT", "t"), x=(4, 12)), run(text.replace("COUNT", "m"), x=(4, 12))
    assert (bool(sure.rejections), bool(unsure.rejections)) == (True, False)
    assert "Loop y" in unsure.decisions["y.body", "r"].cause


def test_scan_gives_its_body_slices_and_stacks_its_outputs():
    model = parse("""g (float[n,12,5] x) => (float[] y) {
        y = Scan<num_scan_inputs=1, body = g (float[] h) => (float[] o) {
            s = Constant<value_ints=[3,-1]>() o = Reshape(h, s)
        }>(x)
    }""")
    found = run(model, x=(4, 12, 5))
    assert (found.decisions["y.body", "o"].data, found.tensors["", "y"].dims) == ((12, 5), (4, 3, 20))


def test_sequences_are_named_as_not_followed():
    text = """g (float[n,6] x) => (float[] y) {
        q = SequenceConstruct(x) i = Constant<value_int=0>() e = SequenceAt(q, i)
        s = Constant<value_ints=[-1,4]>() y = Reshape(e, s)
    }"""
    assert decide(text, x=(4, 6)).cause == "SequenceConstruct q"


def test_external_weight_has_a_shape_but_no_values(tmp_path: Path):
    model = parse("g (float[n,6] x) => (float[] y) { y = Reshape(x, s) }")
    tensor = model.graph.initializer.add(name="s", data_type=onnx.TensorProto.INT64, dims=[2])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(tmp_path / "never-opened"))
    assert decide(model, x=(4, 6)).cause == "the values of the weight s"


def test_weight_of_an_unknown_type_has_no_values():
    model = parse("g (float[n,6] x) => (float[] y) { y = Reshape(x, s) }")
    model.graph.initializer.add(name="s", data_type=9999, dims=[2], int64_data=[3, -1])
    assert decide(model, x=(4, 6)).cause == "the values of the weight s"


def test_values_above_the_limit_are_not_computed():
    text = "g (float[n] x) => (float[] y) { d = Shape(x) e = ConstantOfShape(d) y = Reshape(x, e) }"
    found = run(text, x=(10**12,))
    assert found.tensors["", "e"].value is None


def test_huge_range_is_not_computed():
    text = """g (float[n] x) => (int64[] r) {
        z = Constant<value_int=0>() one = Constant<value_int=1>() n = Size(x) r = Range(z, n, one)
    }"""
    assert run(text, x=(10**12,)).tensors["", "r"].value is None


def test_division_by_zero_gives_no_value():
    text = (
        "g (float[n] x) => (float[] y) { d = Shape(x) z = Constant<value_ints=[0]>() s = Div(d, z) y = Reshape(x, s) }"
    )
    assert decide(text, x=(4,)).cause


def test_backward_slice_before_the_first_item_has_no_value():
    text = """g (float[n,m] x) => (float[] y) {
        d = Shape(x) a = Constant<value_ints=[-9]>() e = Constant<value_ints=[-10]>() z = Constant<value_ints=[0]>()
        b = Constant<value_ints=[-1]>() s = Slice(d, a, e, z, b) y = Reshape(x, s)
    }"""
    assert decide(text, x=(4, 6)).error is None


def test_deadline_ends_a_run():
    model = parse("g (float[n] x) => (float[] y) { y = Relu(x) }")
    with pytest.raises(OutOfTimeError):
        Interpreter(ModelSource(expand_model(model))).run({"x": (4,)}, deadline=0.0)


def read_shapes(words: list[str]) -> dict[str, Dims | None]:
    """Returns the shapes in words such as `x=4,?,3` and `r=?`, where the rank of r is unknown."""
    pairs = [word.split("=") for word in words]
    return {
        name: None if text == "?" else tuple(None if dim == "?" else int(dim) for dim in text.split(","))
        for name, text in pairs
    }


def describe(model: onnx.ModelProto, found: Run) -> list[str]:
    """Returns a line for each tensor that a node makes, each Reshape node, and each failure."""
    made = {name for node in model.graph.node for name in node.output}
    lines = []
    for (path, name), one in found.tensors.items():
        if not path and name not in made:
            continue
        kind = TensorProto.DataType.Name(one.kind).lower() if one.kind else "unknown"
        dims = "[...]" if one.dims is None else f"[{', '.join('?' if dim is None else str(dim) for dim in one.dims)}]"
        value = "" if one.value is None else f" = {one.value.tolist() if one.value.size < 9 else '...'}"
        cause = f" because of {one.cause}" if one.cause else ""
        lines.append(f"{path}/{name}: {kind}{dims}{value}{cause}".removeprefix("/"))
    results = {**found.decisions, **found.failures}
    return lines + [f"{path}/{name} {results[path, name]}".removeprefix("/") for path, name in results]


@pytest.mark.parametrize("row", read_models("runs.txt"), ids=lambda row: row.name)
def test_run_returns_shapes_values_decisions_and_failures(row: ModelRow):
    found = Interpreter(ModelSource(expand_model(row.model))).run(read_shapes(row.given))
    assert describe(row.model, found) == row.lines
