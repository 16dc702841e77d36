"""The conditions that the inputs of a model must satisfy, and the verdict about the model."""

import onnx
import pytest
from onnx import parser

from tensor_reshape.onnx import ModelReport, ModelVerdict, check_model


def parse(nodes: str, inputs: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[] y) {{ {nodes} }}')


def check(nodes: str, inputs: str) -> ModelReport:
    return check_model(parse(nodes, inputs))


def reshape(*target: int, output: str = "y", data: str = "x") -> str:
    """Returns a Reshape node with a constant target."""
    items = ",".join(map(str, target))
    return f"s_{output} = Constant<value_ints=[{items}]>() {output} = Reshape({data}, s_{output})"


def list_lines(report: ModelReport) -> list[str]:
    return list(map(str, report.requirements))


def test_frozen_batch_is_named():
    report = check(reshape(1, 256), "float[batch,16,4,4] x")
    assert list_lines(report) == ["batch = 1 (declared dynamic; node y)"]
    assert report.verdict is ModelVerdict.FROZEN
    assert report.is_good


def test_frozen_dim_without_a_name_is_named_after_its_tensor():
    assert list_lines(check(reshape(1, 256), "float[?,16,4,4] x")) == ["x_dim_0 = 1 (declared dynamic; node y)"]


def test_frozen_height_and_width_are_one_relation():
    report = check(reshape(0, 9, 8, 16), "float[batch,9,h,w] x")
    assert list_lines(report) == ["h*w = 128 unless batch = 0 (node y)"]
    assert report.verdict is ModelVerdict.RESTRICTED


def test_frozen_height_and_width_are_solved_with_two_nodes():
    report = check(reshape(128) + reshape(8, 3, output="z", data="k"), "float[h,w] x, float[h,3] k")
    assert list_lines(report) == [
        "h*w = 128 (node y)",
        "h = 8 (declared dynamic; node z)",
        "w = 16 (declared dynamic; node y)",
    ]


def test_wrong_head_count_restricts_the_sequence_length():
    report = check(reshape(-1, 6, 10, 64), "float[batch,seq,768] x")
    assert list_lines(report) == ["5 divides batch*seq (node y)"]


def test_minus_one_beside_a_copy_requires_a_copied_dim_above_zero():
    report = check(reshape(0, -1, 10, 64), "float[batch,seq,768] x")
    assert list_lines(report) == ["batch >= 1 (node y)", "5 divides seq (node y)"]


def test_wrong_head_count_without_a_free_item_accepts_only_empty_inputs():
    report = check(reshape(0, 0, 10, 64), "float[batch,seq,768] x")
    assert [(str(condition), node) for condition, node in report.contradiction] == [("batch*seq = 0", 0)]
    assert (report.verdict, report.is_good) == (ModelVerdict.CONTRADICTION, False)


def test_two_nodes_with_different_values_contradict():
    report = check(
        reshape(2, 12) + reshape(5, 5, output="m", data="k") + reshape(3, 12, output="z"), "float[n,12] x, float[5,5] k"
    )
    assert [(str(condition), node) for condition, node in report.contradiction] == [("n = 2", 0), ("n = 3", 2)]
    assert report.verdict is ModelVerdict.CONTRADICTION


@pytest.mark.parametrize("target", [(0, 0, 12, 64), (-1, 12, 64), (-1, 768)])
def test_dynamic_model_has_no_requirements(target: tuple[int, ...]):
    report = check(reshape(*target), "float[batch,seq,768] x")
    assert (report.requirements, report.contradiction, report.verdict) == ((), (), ModelVerdict.OK)


def test_requirement_that_a_tensor_has_elements_keeps_the_verdict_ok():
    nodes = (
        "n = Shape<start=0, end=1>(x) r = Constant<value_ints=[-1,12,64]>() s = Concat<axis=0>(n, r) y = Reshape(x, s)"
    )
    report = check(nodes, "float[batch,seq,768] x")
    assert list_lines(report) == ["batch >= 1 (node y)"]
    assert report.verdict is ModelVerdict.OK


def test_same_requirement_of_many_nodes_is_one_line():
    nodes = " ".join(reshape(1, 256, output=name) for name in ("y", "a", "b", "c"))
    assert list_lines(check(nodes, "float[batch,16,4,4] x")) == [
        "batch = 1 (declared dynamic; nodes y, a, b and 1 more)"
    ]


def test_dim_that_is_not_an_input_dim_is_not_a_requirement():
    report = check("u = Unique(x) " + reshape(2, 3, data="u"), "float[batch] x")
    assert report.requirements == ()
    assert [len(finding.answer.conditions) for finding in report.findings] == [1]  # type: ignore[union-attr]


BRANCHES = """
y = If (flag) <
    then_branch = t () => (float[a,b] p) { s = Constant<value_ints=[2,12]>() p = Reshape(x, s) },
    else_branch = e () => (float[c,d] q) { r = Constant<value_ints=[3,12]>() q = Reshape(x, r) }>
"""


def test_requirements_of_branches_apply_only_if_the_branch_runs():
    report = check(BRANCHES, "bool flag, float[n,12] x")
    assert list_lines(report) == ["n = 2 (if y.then_branch runs; node p)", "n = 3 (if y.else_branch runs; node q)"]


def test_requirements_of_two_branches_do_not_contradict():
    report = check(BRANCHES, "bool flag, float[n,12] x")
    assert (report.verdict, report.contradiction) == (ModelVerdict.RESTRICTED, ())


def test_requirement_is_converted_to_json():
    (requirement,) = check(reshape(1, 256), "float[batch,16,4,4] x").requirements
    assert requirement.to_json() == {
        "condition": {
            "kind": "KIND_EQUAL",
            "left": {"factors": [{"name": "batch"}]},
            "right": {},
            "rule": 4,
            "item": "shape",
            "text": "batch = 1",
        },
        "nodes": [0],
        "graph": "",
        "verdict": "frozen",
    }
