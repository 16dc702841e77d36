"""The cases of the suite, and queries as JSON lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance_runs import write_question, write_tensor
from tensor_reshape.client import InvalidRequestError, Reason, ReshapeError, ShapeQuery
from tensor_reshape.client.queries import read_query
from tensor_reshape.conformance.cases import RULES, SUITE, list_cases, read_line, read_version, split_line

ROOT = Path(__file__).parents[2]
QUESTION = {"data": {"shape": {"dims": [2, 3]}}, "shape": {"items": [-1]}}
CASE = {
    "id": "inferred/six",
    "rule": "inferred",
    "operations": ["OPERATION_STATIC_RESHAPE", "OPERATION_RESHAPE"],
    "question": QUESTION,
    "result": {"answer": {"shape": {"dims": [6]}}},
    "because": "So it is.",
}

Line = dict[str, Any]
PLAIN: Line = {"question": write_question()}

# A changed field of a query.
FIELDS: list[Line] = [
    {"data_shape": [2, None, (1, 8), "N", "4*C"]},
    {"data_shape": None},
    {"data_shape": []},
    {"shape": [0, -1, None]},
    {"shape": None},
    {"special_zero": True},
    {"special_zero": None},
    {"operation": "onnx_reshape"},
    {"expected_shape": [6, None]},
    {"explain": True},
    {"data_type": "f32"},
]


def test_conformance_case_line_becomes_one_query_per_operation():
    static, reshape = split_line(CASE)
    assert (static.id, reshape.id) == ("inferred/six@static_reshape", "inferred/six@reshape")
    question = {"operation": "OPERATION_STATIC_RESHAPE", **QUESTION}
    query = {"id": static.id, "question": question}
    assert static[1:] == ("inferred", query, CASE["result"], "So it is.")


def test_list_cases_returns_each_conformance_case_once():
    files = sorted((ROOT / "conformance" / "cases").rglob("*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    cases = list_cases({file.parent.name for file in files})
    assert len({one.id for one in cases}) == len(cases) == sum(len(line["operations"]) for line in lines)
    assert {one.rule for one in list_cases(["core"], ["target", "partial"])} == {"target", "partial"}
    assert list_cases([]) == []


def test_conformance_runner_uses_the_cases_of_the_repository():
    schema = json.loads((ROOT / "conformance" / "schema.json").read_text())
    assert tuple(schema["$defs"]["case"]["properties"]["rule"]["enum"]) == RULES
    assert read_version() == (ROOT / "conformance" / "VERSION").read_text().strip()
    assert SUITE == ROOT / "conformance"
    assert not any(path.is_symlink() for path in (ROOT / "tools" / "tensor_reshape" / "conformance").iterdir())


def write(question: Line | None = None, **keys: object) -> bytes:
    return json.dumps({"question": {**PLAIN["question"], **(question or {})}, **keys}).encode()


def read(line: bytes) -> ShapeQuery:
    query = read_line(line).query
    assert isinstance(query, ShapeQuery), query
    return query


@pytest.mark.parametrize("change", FIELDS, ids=str)
def test_json_line_is_the_query_from_which_it_was_written(change: Line):
    defaults: Line = {"data_shape": [2, 3], "shape": [-1], "special_zero": False, "operation": "reshape"}
    query = ShapeQuery(**{**defaults, **change})
    request = read_query(read(json.dumps({"question": write_question(**change)}).encode())).request
    question, right = request.question, read_query(query).request.question
    dims = [[None if one is None else tuple(one) for one in (each.data, each.target)] for each in (question, right)]
    assert dims[0] == dims[1]
    assert question[3:5] == right[3:5]
    assert (question.operation, request.explain) == (right.operation, query.explain)


def test_json_line_without_data_is_rejected():
    record = {key: value for key, value in PLAIN["question"].items() if key != "data"}
    rejected = read_line(json.dumps({"question": record}).encode()).query
    assert isinstance(rejected, InvalidRequestError)
    assert (rejected.reason, rejected.field) == (Reason.FIELD_MISSING, "data")
    assert read(json.dumps({"question": record, "dataFrom": 0}).encode()).data_from == 0


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (write(unknown=1), ""),
        (b'{"question": []}', "question"),
        (write({"specialZero": 1}), "specialZero"),
        (write({"explain": "yes"}), "explain"),
        (write({"operation": "flatten"}), "operation"),
        (write({"data": {"shape": [2, 3]}}), "data.shape"),
        (write({"data": {"shape": {"dims": [True]}}}), "data.shape.dims[0]"),
        (write({"data": {"shape": {"dims": [2**63]}}}), "data.shape.dims[0]"),
        (write({"data": {"dims": [2], "data": 1}}), "data.data"),
        (write({"data": {"dims": [2], "data": "0"}}), "data.data"),
        (write({"data": {"dims": [2], "data": "A*A="}}), "data.data"),
        (write(dataFrom="x"), "dataFrom"),
        (write(dataFrom=2**70), "dataFrom"),
    ],
    ids=str,
)
def test_error_for_an_invalid_json_line_names_the_field(line: bytes, field: str):
    rejected = read_line(line).query
    assert isinstance(rejected, InvalidRequestError)
    assert (rejected.reason, rejected.field) == (Reason.MESSAGE_MALFORMED, field)


def test_json_line_may_have_an_id_and_a_tensor():
    tensor = write_tensor("DATA_TYPE_U8", [2, 3], bytes(range(6)), strides=[3, 1])
    line = read_line(write({"data": tensor}, id="a"))
    assert isinstance(line.query, ShapeQuery)
    assert (line.query.data_shape, str(line.query.data_type), line.id) == ([2, 3], "u8", "a")
    assert line.tensor is not None
    assert (line.tensor.data, [*line.tensor.strides]) == (bytes(range(6)), [3, 1])
    assert read_line(write())[1:] == (None, None)


def test_tensor_of_a_json_line_needs_a_type_and_known_dims():
    for tensor, reason, field in (
        ({"dims": [2], "data": "AAE="}, Reason.DATA_TYPE_UNSUPPORTED, "data.data_type"),
        ({"dataType": "DATA_TYPE_U8", "dims": [-1], "data": "AA=="}, Reason.DIM_OUT_OF_RANGE, "data.dims[0]"),
        ({"dataType": "DATA_TYPE_U8", "strides": [1]}, "", ""),
    ):
        line = read_line(write({"data": tensor}))
        error = line.query
        found = (error.reason, error.field) if isinstance(error, ReshapeError) else ("", "")
        assert found == (reason, field), tensor


def test_null_in_a_json_line_counts_as_absent():
    assert read_line(write({"data": {"dims": [2], "dataType": "DATA_TYPE_U8", "strides": None}})).tensor is not None
    with_null = read_line(write({"data": {"shape": {"dims": [2]}, "dataType": None}}))
    assert (isinstance(with_null.query, ShapeQuery), with_null.tensor) == (True, None)


@pytest.mark.parametrize(
    ("raw", "name", "reason", "field"),
    [
        *((raw, None, Reason.MESSAGE_MALFORMED, "") for raw in (b"", b"{", b"[]", b"\xff", b"[" * 100_000)),
        (write(id=[1]), None, Reason.MESSAGE_MALFORMED, "id"),
        (write(id=True), None, Reason.MESSAGE_MALFORMED, "id"),
        (write({"data": {"data": 1}}, id=4), 4, Reason.MESSAGE_MALFORMED, "data.data"),
        (write(id="a", shap=[]), "a", Reason.MESSAGE_MALFORMED, ""),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_error_of_a_json_query_line_has_its_id(raw: bytes, name: object, reason: Reason, field: str):
    rejected = read_line(raw)
    assert isinstance(rejected.query, ReshapeError)
    assert (rejected.id, rejected.query.reason, rejected.query.field) == (name, reason, field)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"data": [2, }', "the line is not JSON at character 14"),
        (b'{"id": "\xff"}', "the line is not UTF-8 at byte 8"),
        (b'{"id": 1, "id": 2}', "the line is not JSON: an object contains the same name twice"),
        (b"[" * 100_000, "the line is not JSON: it is nested too deeply"),
        (b"9" * 5000, "the line is not JSON: a number has too many digits"),
        (b"[]", "the line is not a JSON object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_error_of_a_line_that_is_not_json_names_the_place(raw: bytes, text: str):
    rejected = read_line(raw).query
    assert isinstance(rejected, ReshapeError)
    assert rejected.message == text
