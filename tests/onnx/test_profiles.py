"""Concrete input shapes for a check."""

import re

import onnx
import pytest
from onnx import parser

from tensor_reshape.onnx import ProfileError, check_profile
from tensor_reshape.onnx.interpreter import Decision
from tensor_reshape.onnx.reports import describe_decision
from tensor_reshape.rules.limits import MAX_DIM


def parse(target: str, inputs: str, output: str = "float[] y") -> onnx.ModelProto:
    nodes = f"s = Constant<value_ints=[{target}]>() y = Reshape(x, s)"
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({output}) {{ {nodes} }}')


IMAGES = parse("1,256", "float[batch,16,4,4] x, float[batch,pairs] k")
IMAGES.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "2*batch"


def decide(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> Decision:
    (decision,) = check_profile(model, shapes).decisions.values()
    return decision


def find_message(shapes: dict[str, tuple[int, ...]]) -> str:
    with pytest.raises(ProfileError) as error:
        check_profile(IMAGES, shapes)
    return str(error.value)


def test_accepted_profile_has_known_outputs():
    report = check_profile(IMAGES, {"x": (1, 16, 4, 4), "k": (1, 2)})
    assert (report.result, report.decisions["", "y"].output, report.problems) == ("accepted", (1, 256), ())


def test_rejected_profile_names_the_node_and_the_reason():
    report = check_profile(IMAGES, {"x": (4, 16, 4, 4)})
    assert report.result == "rejected"
    assert report.problems[0].startswith("y: [4, 16, 4, 4] under [1, 256] rejected: ")
    assert report.problems[0].endswith("[VOLUME_MISMATCH]")


def test_profile_without_a_needed_size_is_undecided_and_names_it():
    report = check_profile(IMAGES, {})
    line = "y: [?, 16, 4, 4] under [1, 256] undecided, because of the shape of the input x"
    assert (report.result, report.problems) == ("undecided", (line,))


def test_profile_names_another_node_that_cannot_run():
    text = "g (float[n,4] x, float[5,2] w) => (float[] y) { r = Reshape<allowzero=1>(x, s) y = MatMul(r, w) }"
    text = text.replace("=> (float[] y) {", "=> (float[] y) { s = Constant<value_ints=[-1,4]>()")
    report = check_profile(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), {"x": (3, 4)})
    assert (report.result, report.problems) == ("accepted", ("MatMul y cannot run with [3, 4], [5, 2]",))


def test_size_of_a_name_applies_to_all_inputs():
    assert decide(IMAGES, {"k": (4, 8)}).data == (4, 16, 4, 4)


def test_size_of_a_product_gives_the_size_of_its_only_name():
    model = parse("1,256", "float[batch,16,4,4] x, float[pairs,8] k")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*batch"
    assert decide(model, {"k": (8, 8)}).data == (4, 16, 4, 4)
    with pytest.raises(
        ProfileError, match=re.escape("dimension 0 of k is 7; the model declares 2*batch, which is 7 for no batch")
    ):
        check_profile(model, {"k": (7, 8)})


def test_profile_does_not_change_the_model():
    before = IMAGES.SerializeToString()
    check_profile(IMAGES, {"x": (1, 16, 4, 4)})
    assert IMAGES.SerializeToString() == before


def test_profile_accepts_a_size_for_a_dim_without_a_name():
    assert decide(parse("2,8", "float[?,8] x"), {"x": (2, 8)}).data == (2, 8)


def test_profile_gives_a_rank_to_an_input_without_a_shape():
    model = parse("2,8", "float[?,8] x")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert decide(model, {"x": (16,)}).data == (16,)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "the model has no input z; its inputs are x, k"),
        ({"x": (1, 16)}, "the shape [1, 16] of x has rank 2; the model declares [batch, 16, 4, 4], of rank 4"),
        ({"x": (1, 3, 4, 4)}, "dimension 1 of x is 3; the model declares 16"),
        ({"x": (1, 16, 4, 4), "k": (2, 4)}, "dimension 0 of k is 2; the profile already has batch = 1"),
        ({"k": (2, 5)}, "dimension 1 of k is 5; the model declares 2*batch = 4"),
        ({"x": (-1, 16, 4, 4)}, f"dimension 0 of x is -1; a size must be an integer from 0 to {MAX_DIM}"),
        ({"x": (2**63, 16, 4, 4)}, f"dimension 0 of x is {2**63}; a size must be an integer from 0 to {MAX_DIM}"),
        ({"x": (MAX_DIM, 16, 4, 4)}, f"2*batch is {2 * MAX_DIM}; a size must be an integer from 0 to {MAX_DIM}"),
    ],
)
def test_profile_that_does_not_fit_the_model_is_rejected(shapes: dict[str, tuple[int, ...]], message: str):
    assert find_message(shapes) == message


def test_profile_for_an_input_that_is_not_a_tensor_is_rejected():
    model = onnx.ModelProto()
    model.CopyFrom(IMAGES)
    model.graph.input[1].type.sequence_type.elem_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    with pytest.raises(ProfileError, match="the input k is not a tensor"):
        check_profile(model, {"k": (1,)})


def test_smallest_and_largest_size_are_accepted():
    model = parse("0,-1", "float[n,1] x")
    assert [decide(model, {"x": (size, 1)}).data for size in (1, MAX_DIM)] == [(1, 1), (MAX_DIM, 1)]
    assert decide(parse("0,1", "float[n,1] x"), {"x": (0, 1)}).output == (0, 1)
    for size in (True, 1.0, "2", None, MAX_DIM + 1):
        with pytest.raises(
            ProfileError, match=re.escape(f"dimension 0 of x is {size!r}; a size must be an integer from 0")
        ):
            check_profile(model, {"x": (size, 1)})  # type: ignore[dict-item] # wrong on purpose


def test_inputs_that_a_profile_leaves_out_keep_their_known_dims():
    model = parse("0,-1", 'float[n,2] x, float["n*m",n] k, float[5] d, seq(float[n]) q')
    model.graph.initializer.add(name="d", data_type=onnx.TensorProto.FLOAT, dims=[4], float_data=[1, 2, 3, 4])
    model.graph.node.append(onnx.helper.make_node("Reshape", ["k", "s"], ["z"]))
    model.graph.node.append(onnx.helper.make_node("Reshape", ["d", "t"], ["w"]))
    model.graph.initializer.add(name="t", data_type=onnx.TensorProto.INT64, dims=[2], int64_data=[2, -1])
    decisions = check_profile(model, {"x": (3, 2)}).decisions
    assert [decisions["", name].data for name in "yzw"] == [(3, 2), (None, 3), (4,)]


def test_json_of_a_profile_has_everything_that_the_profile_has():
    text = "g (float[n,6] x, float[5,2] w) => (y) { s = Constant<value_ints=[-1,4]>() [rows] y = Reshape(x, s)"
    text += " z = MatMul(y, w) t = Constant<value_ints=[0,5,2]>() u = Reshape(x, t) v = Reshape(z, s) }"
    report = check_profile(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), {"x": [4, 6]})
    names = {"y": "rows", "u": "u", "v": "v"}
    assert report.to_json() == {
        "inputs": {"x": [4, 6]},
        "result": "rejected",
        "nodes": [
            {"graph": "", "output": output, "name": names[output], **describe_decision(report.decisions["", output])}
            for output in names
        ],
        "failures": ["MatMul z cannot run with [6, 4], [5, 2]"],
    }
    assert [line.partition(":")[0] for line in report.problems[:-1]] == ["u", "v"]
    assert report.problems[-1:] == report.failures


def test_name_with_two_sizes_or_no_whole_size_is_rejected():
    model = parse("-1", 'float[a] x, float["3*a"] k, float["a*b"] z, float["a/2"] h')
    for shapes, message in (
        ({"x": (2,), "k": (7,)}, "dimension 0 of k is 7; the model declares 3*a = 6"),
        ({"k": (7,)}, "dimension 0 of k is 7; the model declares 3*a, which is 7 for no a"),
        ({"k": (6,), "x": (3,)}, "dimension 0 of k is 6; the model declares 3*a = 9"),
    ):
        with pytest.raises(ProfileError) as caught:
            check_profile(model, shapes)
        assert str(caught.value) == message
    assert decide(model, {"k": (6,), "z": (8,)}).data == (2,)
    assert decide(model, {"h": (3,)}).data in {(6,), (None,)}
