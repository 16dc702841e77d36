"""The report of a check."""

import json

from onnx import parser

from tensor_reshape.client import InferredShape
from tensor_reshape.onnx import Verdict, check_model
from tensor_reshape.onnx.reports import find_disagreement
from tensor_reshape.rules.dims import name_dim
from tensor_reshape.rules.questions import ShapeAnswer

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x) => (float[a,b] y, float[7] z)
    { s = Constant<value_ints=[0,-1]>() y = Reshape(x, s)
      t = Constant<value_ints=[5,-1]>() u = Constant<value_ints=[3,4]>() v = Reshape(u, t) z = Reshape(y, t) }"""
)
REPORT = check_model(MODEL)


def test_model_report_counts_nodes_by_verdict():
    counts = {verdict: REPORT.count(verdict) for verdict in Verdict if REPORT.count(verdict)}
    assert counts == {Verdict.KNOWN: 1, Verdict.REJECTED: 1, Verdict.DISAGREES: 1}
    assert not REPORT.is_good


def test_model_report_is_converted_to_json():
    record = REPORT.to_json()
    assert json.loads(json.dumps(record)) == record
    known, rejected, disagreeing = record["nodes"]
    entry = {"index": 0, "symbol": {"name": "N", "bounds": {"min": 1}}}
    assert known["answer"]["shape"] == {"dims": [-1, 12], "partial": [entry]}
    assert (known["verdict"], known["data_from"], known["special_zero"]) == ("known", None, True)
    assert [origin["kind"] for origin in known["answer"]["origins"]] == ["KIND_COPIED", "KIND_INFERRED"]
    assert rejected["rejection"]["reason"] == "NOT_DIVISIBLE"
    assert "answer" not in rejected
    assert disagreeing["data_from"] == 0
    assert disagreeing["disagreements"] == list(REPORT.disagreements)


def test_declared_dims_that_can_be_equal_cause_no_disagreement():
    have = InferredShape(ShapeAnswer((name_dim("N", 2), 4)))
    told = [None, (3, 4), (name_dim("M"), None), (None, 4)]
    assert [find_disagreement("the model", dims, have) for dims in told] == [None] * 4
    assert find_disagreement("the model", (1, 4), have) == "the model says that dim 0 is 1; the shape is [N, 4]"
    assert find_disagreement("onnx", (4,), have) == "onnx says [4], of rank 1; the shape is [N, 4]"
    assert find_disagreement("onnx", (4,), InferredShape(ShapeAnswer(None))) is None
