"""The report of a check.

The lines of `checks.txt` after a line of dashes are the report of a model.
"""

import json
from collections.abc import Sequence
from functools import cache

import pytest
from onnx import parser

from model_tables import ModelRow, read_models
from tensor_reshape.client import InferredShape, ReshapeError
from tensor_reshape.onnx import ModelReport, Verdict, check_model
from tensor_reshape.onnx.interpreter import Decision
from tensor_reshape.onnx.reports import find_disagreement
from tensor_reshape.rules.dims import AnyDim, format_dims, name_dim
from tensor_reshape.rules.questions import ShapeAnswer
from tensor_reshape.wire.batches import describe_rejection
from tensor_reshape.wire.dims import encode_shape, encode_target
from tensor_reshape.wire.inference import encode_condition
from tensor_reshape.wire.json_messages import Json, describe_message

MODEL = parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,4] x) => (float[a,b] y, float[7] z)
    { s = Constant<value_ints=[0,-1]>() y = Reshape(x, s)
      t = Constant<value_ints=[5,-1]>() u = Constant<value_ints=[3,4]>() v = Reshape(u, t) z = Reshape(y, t) }"""
)
REPORT = check_model(MODEL)
ROWS = read_models("checks.txt")


def test_model_report_counts_nodes_by_verdict():
    counts = {verdict: REPORT.count(verdict) for verdict in Verdict if REPORT.count(verdict)}
    assert counts == {Verdict.KNOWN: 1, Verdict.REJECTED: 1, Verdict.DISAGREES: 1}
    assert not REPORT.is_good


def test_model_report_is_shown_in_one_line():
    report = check_model(MODEL, probe_seconds=0)
    assert repr(report) == "<ModelReport rejected: 3 Reshape nodes (1 known, 1 disagrees, 1 rejected), no sizes tried>"
    assert str(report) == repr(report)


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


@cache
def check(name: str) -> ModelReport:
    (row,) = [row for row in ROWS if row.name == name]
    return check_model(row.model, probe_seconds=600)


def write_shape(dims: Sequence[AnyDim] | None) -> Json | None:
    return None if dims is None else describe_message(encode_shape(dims))


def write_target(items: Sequence[AnyDim] | None) -> Json | None:
    return None if items is None else describe_message(encode_target(items))


def write_decision(decision: Decision) -> Json:
    error = decision.error
    return {
        "data": write_shape(decision.data),
        "shape": write_target(decision.target),
        "output_shape": write_shape(decision.output),
        "rejection": None if error is None else describe_rejection(error),
        "undecided": decision.cause,
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_json_of_a_report_has_everything_that_the_report_has(row: ModelRow):
    report = check(row.name)
    record = report.to_json()
    for written, one in zip(record.pop("nodes"), report.findings, strict=True):
        node, answer = one.node, one.answer
        assert written == {
            "name": node.name,
            "graph": node.graph,
            "output": node.output,
            "data": write_shape(node.data),
            "shape": write_target(node.target),
            "copying": list(node.copying),
            "data_from": node.data_from,
            "special_zero": node.special_zero,
            "declared": write_shape(one.declared),
            "inferred": write_shape(one.inferred),
            "verdict": one.verdict.value,
            "disagreements": list(one.disagreements),
            "origin": one.origin,
            "advice": one.advice,
            **(
                {"rejection": describe_rejection(answer)}
                if isinstance(answer, ReshapeError)
                else {"answer": answer.to_json()}
            ),
        }
    assert record == {
        "counts": {verdict.value: sum(one.verdict is verdict for one in report.findings) for verdict in Verdict},
        "notes": list(report.notes),
        "verdict": report.verdict.value,
        "verdicts": sorted(report.verdicts),
        "requires": [one.to_json() for one in report.requirements],
        "contradiction": [
            {"condition": describe_message(encode_condition(condition)), "node": node}
            for condition, node in report.contradiction
        ],
        "failed_probes": [
            {"node": one.node, "sizes": one.sizes, **write_decision(one.decision)} for one in report.failed_probes
        ],
        "remarks": list(report.remarks),
        "claims": list(report.claims),
        "tried": report.tried,
        "base": report.base,
        "undecided": list(report.undecided),
    }


def test_declared_dims_that_can_be_equal_cause_no_disagreement():
    have = InferredShape(ShapeAnswer((name_dim("N", 2), 4)))
    told = [None, (3, 4), (name_dim("M"), None), (None, 4)]
    assert [find_disagreement("the model", dims, have) for dims in told] == [None] * 4
    assert find_disagreement("the model", (1, 4), have) == "the model says that dimension 0 is 1; the shape is [N, 4]"
    assert find_disagreement("onnx", (4,), have) == "onnx says [4], of rank 1; the shape is [N, 4]"
    assert find_disagreement("onnx", (4,), InferredShape(ShapeAnswer(None))) is None


def describe(report: ModelReport) -> list[str]:
    """Returns everything in a report that is not about its probes."""
    lines = [f"{report.verdict.value}: {' '.join(sorted(report.verdicts)) or 'none'}", f"good: {report.is_good}"]
    for one in report.findings:
        stated = [
            f"{word} {format_dims(dims)}"
            for word, dims in (("declared", one.declared), ("onnx", one.inferred))
            if dims is not None
        ]
        lines += [f"{one.verdict.value}: {one}", *stated, *one.disagreements, *one.copies]
        lines += [text for text in (one.origin, one.advice) if text]
    lines += [f"{one.verdict.value}: {one}" for one in report.requirements]
    lines += [f"contradiction: {condition} at {node}" for condition, node in report.contradiction]
    return [*lines, *map(str, report.failed_probes), *report.remarks, *report.claims, *report.undecided, *report.notes]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_report_of_a_model_has_these_lines(row: ModelRow):
    assert describe(check(row.name)) == row.lines[row.lines.index("---") + 1 :]
