"""ONNX models: reading, rejection, and the limit of the time for any model."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper, parser

from hypothesis_profiles import examples
from tensor_reshape.onnx import ModelError, check_model
from tensor_reshape.onnx.models import MAX_NODES, expand_model, infer_model, load_model

PLAIN = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,3,4] x) => (float[a,b] y) { s = Constant<value_ints=[0,-1]>() y = Reshape(x, s) }"""
)


def test_onnx_model_may_be_a_path_bytes_or_a_message(tmp_path: Path):
    path, before = tmp_path / "model.onnx", PLAIN.SerializeToString()
    onnx.save(PLAIN, path)
    reports = [check_model(source) for source in (path, str(path), path.read_bytes(), PLAIN)]
    assert {str(report.findings[0]) for report in reports} == {"y: [N, 3, 4] under [0, -1] is [N, 12]"}
    assert PLAIN.SerializeToString() == before


def test_input_that_is_not_an_onnx_model_is_rejected(tmp_path: Path):
    for raw in (b"", b"PK\x03\x04", b"\xff" * 40, b"\x08\x07", b'{"graph": 1}'):
        with pytest.raises(ModelError, match="not an ONNX model"):
            load_model(raw)
    with pytest.raises(FileNotFoundError):
        check_model(tmp_path / "missing.onnx")


@examples(200)
@given(st.data())
def test_corrupt_onnx_model_is_checked_or_rejected(data: st.DataObject):
    raw = bytearray(PLAIN.SerializeToString())
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), min_size=1, max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    try:
        report = check_model(bytes(raw))
    except ModelError:
        return
    assert len(report.findings) <= 1


def test_external_onnx_weight_files_are_not_opened(tmp_path: Path):
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4] x) => (y) <float[4,6] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
        { z = MatMul(x, w) s = Constant<value_ints=[-1,2,3]>() y = Reshape(z, s) }"""
    )
    weights = model.graph.initializer[0]
    weights.ClearField("float_data")
    weights.data_location = onnx.TensorProto.EXTERNAL
    weights.external_data.add(key="location", value="/etc/passwd")
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    (finding,) = check_model(path).findings
    assert str(finding.answer) == "[N, 2, 3]"


def test_failed_onnx_shape_inference_is_noted_in_the_report():
    model = load_model(PLAIN.SerializeToString())
    model.ClearField("opset_import")
    report = check_model(model)
    assert "onnx's own shape inference failed" in report.notes[0]
    assert str(report.findings[0].answer) == "[N, 12]"
    assert infer_model(model)[0] is model


LONG = "the values of shapes are not inferred, because lists have more than 1048576 items"


def parse(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')


@pytest.mark.parametrize("kind", ["int64", "float", "bool"])
def test_values_of_a_long_list_are_not_propagated(kind: str):
    """onnx allocates memory for each item of such a list, even if it has no data."""
    text = f"g ({kind}[5000000] x) => ({kind}[] y) {{ s = Constant<value_ints=[-1,5]>() y = Reshape(x, s) }}"
    report = check_model(parse(text))
    assert report.notes == (LONG,)
    assert str(report.findings[0]) == "y: [5000000] under [-1, 5] is [1000000, 5]"


def test_values_of_many_lists_are_not_propagated():
    nodes = " ".join(f"x{number + 1} = Add(x{number}, x0)" for number in range(20))
    assert infer_model(parse(f"g (float[100000] x0) => (x20) {{ {nodes} }}"))[1] == LONG


def test_values_of_a_long_list_in_a_branch_are_not_propagated():
    text = """g (bool c) => (y) { y = If(c) <
        then_branch = a () => (p) <int64[1] n = {5000000}, int64[1] i = {0}>
            { x = ConstantOfShape(n) p = Gather(x, i) },
        else_branch = b () => (q) { q = Constant<value_ints=[0]>() }
    > }"""
    assert infer_model(parse(text))[1] == LONG


def test_long_initializer_does_not_prevent_propagation():
    model = parse("g (float[n,12] x) => (y) { d = Shape(x) s = Identity(d) z = Add(x, w) y = Reshape(z, s) }")
    model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[5_000_000])
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [5_000_000]))
    assert infer_model(model)[1] != LONG


HUGE = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (6_000_000_000, 6_000_000_000))
from onnx import parser
from tensor_reshape.onnx import check_model
text = "g (KIND[99999999999] x) => (y) <int64[1] i = {0}, int64[1] e = {5}, int64[1] m = {-1}>"
nodes = "{ c = NODE y = Reshape(c, m) }"
print(check_model(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text} {nodes}')).findings[0])
"""


@pytest.mark.parametrize(
    ("kind", "node", "finding"),
    [
        ("int64", "Slice(x, i, e)", "y: [5] under [-1] is [5]"),
        ("float", "Slice(x, i, e)", "y: [5] under [-1] is [5]"),
        ("int64", "Concat<axis=0>(x, m)", "y: [100000000000] under [-1] is [100000000000]"),
    ],
)
def test_huge_list_is_checked_with_six_gigabytes(kind: str, node: str, finding: str):
    code = HUGE.replace("KIND", kind).replace("NODE", node)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (finding, "")


def test_onnx_model_without_an_opset_has_opset_1():
    model = load_model(PLAIN.SerializeToString())
    model.ClearField("opset_import")
    model.ir_version = 2
    assert expand_model(model).opset_import[0].version == 1


FUNCTIONS = """<ir_version: 8, opset_import: ["" : 17, "f" : 1]>
g (float[N,3,4] x) => (y) { y = f.f0(x) }
"""


def make_functions(count: int, calls: int) -> onnx.ModelProto:
    """Returns a model of functions, each of which calls the next one several times."""
    text = FUNCTIONS
    for number in range(count):
        callee = f"f.f{number + 1}" if number < count - 1 else "Relu"
        body = " ".join(f"t{call + 1} = {callee}(t{call})" for call in range(calls))
        text += '<domain: "f", opset_import: ["" : 17, "f" : 1]>\n'
        text += f"f{number} (t0) => (t{calls}) {{ {body} }}\n"
    return parser.parse_model(text)


def test_onnx_functions_are_inlined_at_each_call():
    model = parser.parse_model(
        FUNCTIONS.replace("y = f.f0(x)", "z = f.f0(x) y = f.f0(z)")
        + """<domain: "f", opset_import: ["" : 17]>
        f0 (a) => (b) { s = Constant<value_ints=[0,-1]>() b = Reshape(a, s) }"""
    )
    assert [str(finding.answer) for finding in check_model(model).findings] == ["[N, 12]", "[N, 12]"]


def test_each_call_of_an_onnx_function_has_its_own_dims():
    model = parser.parse_model(
        FUNCTIONS.replace("y = f.f0(x)", "v = f.f0(x) w = Relu(x) y = f.f0(w)")
        + """<domain: "f", opset_import: ["" : 17]>
        f0 (a) => (c) { b = NonZero(a) s = Constant<value_ints=[-1]>() c = Reshape(b, s) }"""
    )
    model.functions[0].value_info.append(helper.make_tensor_value_info("b", TensorProto.INT64, [3, "found"]))
    first, second = check_model(model).findings
    assert "found" not in f"{first} {second}"
    assert str(first.answer) != str(second.answer)


def test_dim_names_inside_onnx_functions_are_ignored():
    model = parser.parse_model(
        FUNCTIONS.replace("g (float[N,3,4] x)", "g (float[N,3,4] x, bool k)").replace("f.f0(x)", "f.f0(x, k)")
        + """<domain: "f", opset_import: ["" : 17]>
        f0 (a, k) => (c) { c = If (k) <
            then_branch = t () => (float[found] u) { s = Constant<value_ints=[-1]>() u = Reshape(a, s) },
            else_branch = e () => (float[found] v) { z = NonZero(a) r = Constant<value_ints=[-1]>() v = Reshape(z, r) }
        > }"""
    )
    first, second = check_model(model).findings
    assert (str(first.answer), "found" in str(second)) == ("[12*N]", False)


def test_onnx_functions_that_expand_exponentially_are_rejected():
    start = time.process_time()
    with pytest.raises(ModelError, match=str(MAX_NODES)):
        check_model(make_functions(60, calls=2))
    assert time.process_time() - start < 5  # 2^60 nodes would take years


@pytest.mark.parametrize(("functions", "calls"), [(1, 3), (2, 2), (1, 9)])
def test_largest_number_of_expanded_nodes_is_accepted(functions: int, calls: int, monkeypatch: pytest.MonkeyPatch):
    """A call counts as a node, in addition to the nodes of its function."""
    monkeypatch.setattr("tensor_reshape.onnx.models.MAX_NODES", 10)
    model = make_functions(functions, calls)
    count = sum(calls**depth for depth in range(functions + 1))
    model.graph.node.extend(helper.make_node("Relu", ["x"], [f"r{place}"]) for place in range(10 - count))
    expand_model(model)
    model.graph.node.append(helper.make_node("Relu", ["x"], ["last"]))
    with pytest.raises(
        ModelError, match="the model has 11 nodes after expanding its functions; at most 10 are allowed"
    ):
        expand_model(model)


def test_nodes_in_branches_and_in_functions_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tensor_reshape.onnx.models.MAX_NODES", 4)
    text = "g (bool c, float[2] x) => (y) { y = If(c) < then_branch = a () => (p) { q = Relu(x) p = Relu(q) },"
    text += " else_branch = b () => (r) { r = Relu(x) } > }"
    model = parse(text)
    expand_model(model)
    model.graph.node.append(helper.make_node("Relu", ["x"], ["last"]))
    with pytest.raises(ModelError, match="has 5 nodes"):
        expand_model(model)


def test_functions_may_call_each_other_a_hundred_levels_deep():
    assert len(expand_model(make_functions(100, calls=1)).graph.node) == 1
    with pytest.raises(ModelError, match="100 levels deep"):
        expand_model(make_functions(101, calls=1))


@pytest.mark.parametrize(("dims", "is_kept"), [([64, 64], True), ([4097], False), ([64, 65], False), ([0], True)])
def test_data_of_a_constant_is_kept_up_to_4096_elements(dims: list[int], is_kept: bool):
    model = parse("g (float[2] x) => (y) { y = Relu(x) }")
    tensor = numpy_helper.from_array(np.ones(dims, np.float32), "w")
    model.graph.initializer.append(tensor)
    (found,) = expand_model(model).graph.initializer
    assert (found.name, found.data_type, list(found.dims)) == ("w", TensorProto.FLOAT, dims)
    assert (found == tensor, found.data_location == TensorProto.EXTERNAL) == (is_kept, not is_kept)
    assert model.graph.initializer[0] == tensor


@pytest.mark.parametrize("inputs", ["float[{most}] x", "float[{rest}] x, float[7] w", "float[{most}] x, float[2,9] w"])
def test_values_of_the_longest_lists_are_propagated(inputs: str):
    nodes = "{ y = ReduceSum<keepdims=0>(x) }"
    for more, note in ((0, ""), (1, LONG)):
        most = (1 << 20) + more
        text = f"g ({inputs.format(most=most, rest=most - 7)}) => (float y) {nodes}"
        assert infer_model(parse(text))[1] == note


def test_recursive_onnx_functions_are_rejected():
    for count in (1, 2):
        model = make_functions(count, calls=1)
        last = model.functions[-1].node[0]
        last.op_type, last.domain = "f0", "f"
        with pytest.raises(ModelError, match="call themselves"):
            check_model(model)
    with pytest.raises(ModelError, match="100 levels deep"):
        check_model(make_functions(400, calls=1))
