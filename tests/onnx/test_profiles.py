"""Concrete input shapes for a check."""

import re

import onnx
import pytest
from onnx import parser

from tensor_reshape.client import ReshapeError
from tensor_reshape.onnx import ProfileError, check_profile
from tensor_reshape.rules.limits import MAX_DIM


def parse(target: str, inputs: str, output: str = "float[] y") -> onnx.ModelProto:
    nodes = f"s = Constant<value_ints=[{target}]>() y = Reshape(x, s)"
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => ({output}) {{ {nodes} }}')


IMAGES = parse("1,256", "float[batch,16,4,4] x, float[batch,pairs] k")
IMAGES.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "2*batch"


def find_message(shapes: dict[str, tuple[int, ...]]) -> str:
    with pytest.raises(ProfileError) as error:
        check_profile(IMAGES, shapes)
    return str(error.value)


def test_accepted_profile_has_known_outputs():
    (finding,) = check_profile(IMAGES, {"x": (1, 16, 4, 4)}).findings
    assert str(finding) == "y: [1, 16, 4, 4] under [1, 256] is [1, 256]"


def test_rejected_profile_names_the_reason():
    (finding,) = check_profile(IMAGES, {"x": (4, 16, 4, 4)}).findings
    assert isinstance(finding.answer, ReshapeError)
    assert str(finding.answer.reason) == "VOLUME_MISMATCH"


def test_size_of_a_name_applies_to_all_inputs():
    (finding,) = check_profile(IMAGES, {"k": (4, 8)}).findings
    assert finding.node.data == (4, 16, 4, 4)


def test_size_of_a_product_gives_the_size_of_its_only_name():
    model = parse("1,256", "float[batch,16,4,4] x, float[pairs,8] k")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*batch"
    (finding,) = check_profile(model, {"k": (8, 8)}).findings
    assert finding.node.data == (4, 16, 4, 4)


def test_odd_size_of_a_double_is_rejected():
    model = parse("1,256", "float[batch,16,4,4] x, float[pairs,8] k")
    model.graph.input[1].type.tensor_type.shape.dim[0].dim_param = "2*batch"
    with pytest.raises(
        ProfileError, match=re.escape("dim 0 of k is 7; the model declares 2*batch, which is 7 for no batch")
    ):
        check_profile(model, {"k": (7, 8)})


def test_size_of_a_name_applies_to_the_declared_output():
    model = parse("-1,9,8,8", "float[batch,9,h,w] x", "float[batch,9,8,8] y")
    (finding,) = check_profile(model, {"x": (1, 9, 8, 16)}).findings
    assert finding.disagreements == ("the model says that dim 0 is 1; the shape is [2, 9, 8, 8]",)


def test_profile_does_not_change_the_model():
    before = IMAGES.SerializeToString()
    check_profile(IMAGES, {"x": (1, 16, 4, 4)})
    assert IMAGES.SerializeToString() == before


def test_profile_accepts_a_size_for_a_dim_without_a_name():
    (finding,) = check_profile(parse("2,8", "float[?,8] x"), {"x": (2, 8)}).findings
    assert finding.node.data == (2, 8)


def test_profile_gives_a_rank_to_an_input_without_a_shape():
    model = parse("2,8", "float[?,8] x")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    (finding,) = check_profile(model, {"x": (16,)}).findings
    assert finding.node.data == (16,)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "the model has no input z; its inputs are x, k"),
        ({"x": (1, 16)}, "the shape [1, 16] of x has rank 2; the model declares [batch, 16, 4, 4], of rank 4"),
        ({"x": (1, 3, 4, 4)}, "dim 1 of x is 3; the model declares 16"),
        ({"x": (1, 16, 4, 4), "k": (2, 4)}, "dim 0 of k is 2; the profile already has batch = 1"),
        ({"k": (2, 5)}, "dim 1 of k is 5; the model declares 2*batch = 4"),
        ({"x": (-1, 16, 4, 4)}, f"dim 0 of x is -1; a size must be an integer from 0 to {MAX_DIM}"),
        ({"x": (2**63, 16, 4, 4)}, f"dim 0 of x is {2**63}; a size must be an integer from 0 to {MAX_DIM}"),
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
