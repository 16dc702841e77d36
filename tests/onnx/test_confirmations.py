"""The results of the rules together with those of the probes."""

from onnx import parser

from tensor_reshape.onnx import ModelReport, ModelVerdict, Verdict, check_model

HEAD = '<ir_version: 10, opset_import: ["": 21]> '


def check(graph: str) -> ModelReport:
    return check_model(parser.parse_model(HEAD + graph))


def reshape(dims: str, items: str) -> ModelReport:
    return check(f"g (float[{dims}] x) => (float[] y) {{ s = Constant<value_ints=[{items}]>() y = Reshape(x, s) }}")


def test_name_that_leaves_the_first_dim_is_a_remark():
    report = reshape("batch,8,4,4", "2,-1")
    assert report.verdict is ModelVerdict.OK
    advice = "write [0, -1] instead of [2, -1] to keep batch in dim 0"
    assert report.remarks == (f"leaves: batch leaves dim 0 at y: dim 1 of its output is 64*batch; {advice}",)


def test_group_of_channels_moves_no_name():
    assert reshape("batch,8,4,4", "0,2,-1").remarks == ()


def test_wrong_declared_shape_of_an_intermediate_tensor_is_a_claim():
    text = """g (float[b,t,64] x) => (float[] y) <float[b,5,64] c> {
        c = Relu(x) s = Constant<value_ints=[-1,64]>() r = Reshape(c, s) d = Shape(x) y = Reshape(r, d)
    }"""
    report = check(text)
    assert (report.verdict, len(report.claims)) == (ModelVerdict.OK, 1)
    assert report.claims[0].startswith("the model declares dim 1 of c as 5; its node gives 8 for b=2 t=8")


def test_condition_that_a_probe_refutes_is_not_reported():
    """The declared shape of c makes the rules believe that t is 5, but every t runs."""
    text = """g (float[b,t,64] x) => (float[] y) <float[b,5,64] c> {
        c = Relu(x) d = Shape(x) s = Constant<value_ints=[0,0,8,8]>() y = Reshape(c, s)
    }"""
    report = check(text)
    assert [str(one) for one in report.requirements if one.verdict is not ModelVerdict.OK] == []
    assert report.count(Verdict.REJECTED) == 0
