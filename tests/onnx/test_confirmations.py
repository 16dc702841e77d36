"""What probes add to a report, the line of the source that made a node, and the proposed target."""

import pytest
from onnx import parser

from tensor_reshape.onnx import ModelReport, ModelVerdict, Verdict, check_model
from tensor_reshape.onnx.confirmations import read_stack

HEAD = '<ir_version: 10, opset_import: ["": 21]> '

FIRST = """<ir_version: 10, opset_import: ["": 21]>
g (float[{dims}] x) => (float[] y) {{ s = Constant<value_ints=[{items}]>() y = Reshape(x, s) }}"""


def check(graph: str) -> ModelReport:
    return check_model(parser.parse_model(HEAD + graph))


def reshape(dims: str, items: str) -> ModelReport:
    return check(f"g (float[{dims}] x) => (float[] y) {{ s = Constant<value_ints=[{items}]>() y = Reshape(x, s) }}")


def test_name_that_leaves_the_first_dim_is_a_remark():
    report = reshape("batch,8,4,4", "2,-1")
    assert report.verdict is ModelVerdict.OK
    advice = "write [0, -1] instead of [2, -1] to keep batch in dimension 0"
    assert report.remarks == (
        f"leaves: batch leaves dimension 0 at y: dimension 1 of its output is 64*batch; {advice}",
    )


def test_group_of_channels_moves_no_name():
    assert reshape("batch,8,4,4", "0,2,-1").remarks == ()


def test_wrong_declared_shape_of_an_intermediate_tensor_is_a_claim():
    text = """g (float[b,t,64] x) => (float[] y) <float[b,5,64] c> {
        c = Relu(x) s = Constant<value_ints=[-1,64]>() r = Reshape(c, s) d = Shape(x) y = Reshape(r, d)
    }"""
    report = check(text)
    assert (report.verdict, len(report.claims)) == (ModelVerdict.OK, 1)
    assert report.claims[0].startswith("the model declares dimension 1 of c as 5; its node gives 8 for b=2 t=8")


def test_condition_that_a_probe_refutes_is_not_reported():
    """The declared shape of c makes the rules believe that t is 5, but every t runs."""
    text = """g (float[b,t,64] x) => (float[] y) <float[b,5,64] c> {
        c = Relu(x) d = Shape(x) s = Constant<value_ints=[0,0,8,8]>() y = Reshape(c, s)
    }"""
    report = check(text)
    assert [str(one) for one in report.requirements if one.verdict is not ModelVerdict.OK] == []
    assert report.count(Verdict.REJECTED) == 0


@pytest.mark.parametrize(
    ("dims", "items", "advice"),
    [
        # the rank is above that of the graph operations
        (
            f"batch,{','.join('2' * 12)}",
            f"1,{','.join('2' * 12)}",
            f"write [0, {', '.join('2' * 12)}] instead of [1, {', '.join('2' * 12)}] to keep batch dynamic",
        ),
        ("batch,16,4,4", "1,256", "write [0, 256] instead of [1, 256] to keep batch dynamic"),
        ("length,batch,96", "0,2,96", "write [0, 0, 96] instead of [0, 2, 96] to keep batch dynamic"),
        (
            "batch,length,96",
            "1,8,6,16",
            "write [0, 0, 6, 16] instead of [1, 8, 6, 16] to keep batch and length dynamic",
        ),
        ("batch,length,96", "8,96", "write [-1, 96] instead of [8, 96] to keep batch and length dynamic"),
        ("a,b,c", "2,3,4", "write [0, 0, 0] instead of [2, 3, 4] to keep a, b and c dynamic"),
        ("batch,length,96", "1,768", ""),
        ("batch,64,7,7", "-1,1024", "write [0, -1] instead of [-1, 1024] to keep batch in dimension 0"),
        ("batch,length,96", "2,-1,96", "write [0, -1, 96] instead of [2, -1, 96] to keep batch in dimension 0"),
        ("batch,length,64", "0,0,5,-1", "write a divisor of 64 instead of 5: 1, 2, 4, 8, 16, 32, 64"),
        ("batch,length,64", "0,0,5,12", "write a divisor of 64 instead of 5: 1, 2, 4, 8, 16, 32, 64"),
        ("2,7,64", "0,0,4,12", "write 16 instead of 12, because 4 * 16 = 64"),
        ("12", "5,-1", "write a divisor of 12 instead of 5: 1, 2, 3, 4, 6, 12"),
        ("2,7,64", "2,7,3,16", "write 4 instead of 3, because 16 * 4 = 64"),
        ("2,7,64", "2,8,5,12", ""),
        ("2,7,64", "0,8,5,12", ""),
        ("2,7,64", "2,7,5,12", "write a divisor of 64 instead of 5: 1, 2, 4, 8, 16, 32, 64"),
        ("2,7,64", "2,7,-1,12", "write a divisor of 64 instead of 12: 1, 2, 4, 8, 16, 32, 64"),
        ("2,7,64", "2,7,12,8", "write 8 instead of 12, because 8 * 8 = 64"),
        ("2,7,64", "2,7,5,4,3", ""),
        ("2,7,64", "2,7,63", ""),
        ("2,7,0", "2,7,5,4", ""),
        ("2,7,256", "2,7,3,-1", "write a divisor of 256 instead of 3: 1, 2, 4, 8, 16, 32, 64, 128"),
        ("batch,4", "4", ""),
        ("batch,4", "2,-1", ""),
        ("4,batch", "1,-1,4", ""),
        ("4,batch", "4,3", "write [4, 0] instead of [4, 3] to keep batch dynamic"),
        ("4,batch", "3,4", "write [-1, 4] instead of [3, 4] to keep batch dynamic"),
        ("batch,length", "-1,2,6", "write [0, 2, -1] instead of [-1, 2, 6] to keep batch in dimension 0"),
        ("batch,length", "-1", ""),
        ("batch,length", "8,-1", "write [0, -1] instead of [8, -1] to keep batch in dimension 0"),
        ("2,batch", "8,-1", ""),
        ("batch,length,c", "0,0,12,-1", ""),
        ("batch,length,96", "-1,3,32", ""),
    ],
)
def test_finding_has_advice_what_to_write(dims: str, items: str, advice: str):
    assert check_model(parser.parse_model(FIRST.format(dims=dims, items=items))).findings[0].advice == advice


@pytest.mark.parametrize("other", ["", "s = Constant<value_ints=[0,-1]>() z = Reshape(x, s)"])
def test_advice_does_not_depend_on_another_node(other: str):
    """The other node needs a batch, so that the length is 0. The target copies the length already."""
    report = check(
        f"g (float[batch,length,96] x) => (float[] y) {{ {other} "
        "t = Constant<value_ints=[0,0,6,12]>() y = Reshape(x, t) }"
    )
    assert report.findings[-1].advice == "write 16 instead of 12, because 6 * 16 = 96"


def test_node_has_the_line_of_the_source_that_its_exporter_stored():
    model = parser.parse_model(FIRST.format(dims="batch,16,4,4", items="1,256"))
    stack = 'File "/home/me/model.py", line 12, in forward\n    return x.view(1, 256)\n'
    library = 'File "/usr/lib/python3/site-packages/torch/nn/modules/module.py", line 1, in _call\n    return f()\n'
    model.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=stack + library)
    (finding,) = check_model(model).findings
    assert finding.origin == "/home/me/model.py:12: return x.view(1, 256)"


@pytest.mark.parametrize(
    ("frames", "line"),
    [
        (["/a/model.py:3:x = f(x)", "/a/model.py:9:x.view(1)"], "/a/model.py:9: x.view(1)"),
        (["/a/model.py:3:x = f(x)", "/v/dist-packages/b.py:9:x.view(1)"], "/a/model.py:3: x = f(x)"),
        (["/v/site-packages/a.py:3:f()", "C:\\v\\site-packages\\b.py:9:g()"], "C:\\v\\site-packages\\b.py:9: g()"),
    ],
)
def test_line_of_a_stack_is_the_innermost_outside_of_libraries(frames: list[str], line: str):
    parts = [frame.rsplit(":", 2) for frame in frames]
    stack = "\n".join(f'  File "{file}", line {number}, in f\n    {code}  ' for file, number, code in parts)
    assert read_stack(stack) == line


@pytest.mark.parametrize(("count", "shown"), [(20, 20), (21, 20)])
def test_at_most_twenty_wrong_declared_shapes_are_reported(count: int, shown: int):
    declared = ", ".join(f"float[b,5] c{place}" for place in range(count))
    nodes = " ".join(f"c{place} = Relu(x)" for place in range(count))
    report = check(
        f"g (float[b,4] x) => (y) <{declared}> {{ {nodes} s = Constant<value_ints=[0,-1]>() y = Reshape(x, s) }}"
    )
    assert len(report.claims) == shown


def test_stack_without_a_frame_gives_no_line():
    assert read_stack("nothing") == ""
