"""The files of the conformance kit: each case is as its schema says, and each answer is that of the rules."""

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conformance_runs import make_validator
from tensor_reshape.conformance.cases import Case, split_line
from tensor_reshape.conformance.verdicts import judge
from tensor_reshape.wire.json_messages import Json
from verification.kit import FOLDER, compute_result, is_stale, list_files

SCHEMA = json.loads((FOLDER / "schema.json").read_text())
FILES = list_files()


@cache
def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.repository  # it asks the rules all questions again, which takes 20 s
def test_each_conformance_case_agrees_with_the_rules():
    assert [case["id"] for path in FILES for case in read_lines(path) if is_stale(case)] == []


@pytest.mark.parametrize("path", FILES, ids=["/".join(path.parts[-2:]) for path in FILES])
def test_each_conformance_case_follows_the_json_schema(path: Path):
    # Most lines of the full size are alike but for their numbers, and each takes a millisecond.
    cases, validator = read_lines(path)[:: 20 if path.parent.name == "full" else 1], make_validator(SCHEMA)
    assert [(case["id"], error.message) for case in cases for error in validator.iter_errors(case)] == []
    assert {(case["rule"], case["id"].split("/")[0]) for case in read_lines(path)} == {(path.stem, path.stem)}


def _ask(**fields: object) -> dict[str, Any]:
    """Returns the change of a case whose query has these fields."""
    known = {"specialZero": False, "data": {"shape": {"dims": [2, 3]}}, "shape": {"items": [2, 3]}}
    return {"question": {**known, **fields}}


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("volume/same", {"rule": "none"}),
    ("volume/same", {"id": "volume/Same"}),
    ("volume/same", {"operations": []}),
    ("volume/same", {"operations": ["reshape"]}),
    ("volume/same", {"because": ""}),
    ("volume/same", {"data": {}}),
    ("volume/same", {"question": {"data": {}, "operation": "OPERATION_RESHAPE"}}),
    ("volume/same", {"question": {"shape": {}}}),
    ("volume/same", _ask(specialZero=None)),
    ("volume/same", _ask(data={"shape": {"dims": [True]}})),
    ("volume/same", _ask(data={"shape": {"dims": [2.5]}})),
    ("volume/same", _ask(data={"shape": [2, 3]})),
    ("volume/same", _ask(data={"shape": {"dims": [-1], "partial": [{}]}})),
    ("volume/same", _ask(data={"shape": {"dims": [-1], "partial": [{"index": 0, "symbol": {}}]}})),
    ("volume/same", _ask(data={"dims": [2, 3], "data": "AA=="})),
    ("volume/same", _ask(shape={"dims": [2, 3]})),
    ("volume/same", _ask(expectedShape=None)),
    ("volume/same", {"result": {}}),
    ("volume/same", {"result": {"unsupported": "it"}}),
    ("volume/same", {"result": {"answer": {"shape": {"dims": [2, 3]}}, "more": 1}}),
    ("volume/same", {"result": {"answer": {"shape": {"dims": [2, 3]}, "more": 1}}}),
    ("volume/same", {"result": {"answer": {"shape": {"dims": [-2]}}}}),
    ("volume/same", {"result": {"answer": {"shape": {"dims": [2**63]}}}}),
    ("volume/more-elements", {"result": {"rejection": {}}}),
    ("volume/more-elements", {"result": {"rejection": {"reason": "not so", "field": "shape"}}}),
    ("volume/same", {"result": {"output": {"dataType": "DATA_TYPE_U8", "dims": [2, 3], "data": "AAAAAAAA"}}}),
    ("layouts/run-dense", {"result": {"answer": {"shape": {"dims": [3, 2]}}}}),
    ("layouts/run-dense", _ask(data={"dataType": "DATA_TYPE_F32", "dims": [2, 3], "data": "000"})),
]


def test_json_schema_rejects_invalid_conformance_cases():
    validator = make_validator(SCHEMA)
    validator.check_schema(SCHEMA)
    cases = {case["id"]: case for path in FILES if path.parent.name == "core" for case in read_lines(path)}
    for name, change in WRONG:
        assert validator.is_valid(cases[name]), name
        assert not validator.is_valid(cases[name] | change), (name, change)


def test_answer_schema_accepts_less_precise_answers_than_cases():
    validator = make_validator({**SCHEMA, "$ref": "#/$defs/answer"})
    bounds = {"index": 0, "interval": {"min": "1", "max": None}}
    answers: list[dict[str, Any]] = [
        {"answer": {"shape": {"dims": [-1, "2"], "partial": [bounds]}, "more": 1}, "more": 1},
        {"answer": {}},
        {"output": {"dims": [1], "data": "AA=="}},
        {"rejection": {}},
        {"unsupported": "it"},
    ]
    assert [answer for answer in answers if not validator.is_valid({"id": "one", **answer})] == []
    assert not validator.is_valid({"answer": {}})


def test_each_conformance_case_has_a_unique_id_and_a_source():
    cases = [case for path in FILES for case in read_lines(path)]
    assert len({case["id"] for case in cases}) == len(cases)
    sources = ("oneDNN Graph", "OpenVINO", "ONNX", "a rule of tensor-reshape")
    assert [case["id"] for case in cases if not any(f"({name}" in case["because"] for name in sources)] == []


def _change(key: str, change: Callable[[Any], Any]) -> Callable[[Json], Json]:
    """Returns a change of a query that changes one field, if the query has it."""

    def apply(query: Json) -> Json:
        question = query["question"]
        return {**query, "question": {**question, key: change(question[key])}} if key in question else query

    return apply


def _change_items(change: Callable[[int], int]) -> Callable[[Json], Json]:
    return _change("shape", lambda shape: {**shape, "items": [*map(change, shape.get("items", []))]})


def _cut(query: Json) -> Json:
    """Compares an expected shape only as far as both shapes have dims."""
    question = query["question"]
    if "expectedShape" not in question or "shape" not in question:
        return query
    rank = len(question["shape"].get("items", []))
    expected = question["expectedShape"]
    dims = (expected.get("dims", []) + [-1] * rank)[:rank]
    partial = [entry for entry in expected.get("partial", []) if entry["index"] < rank]
    return {**query, "question": {**question, "expectedShape": {"dims": dims, "partial": partial}}}


def _stop(expected: Json) -> Json:
    described = {entry["index"] for entry in expected.get("partial", [])}
    dims = expected.get("dims", [])
    end = next((index for index, dim in enumerate(dims) if dim == -1 and index not in described), len(dims))
    partial = [entry for entry in expected.get("partial", []) if entry["index"] < end]
    return {"dims": [*dims[:end], *[-1] * (len(dims) - end)], "partial": partial}


def _require_nesting(data: Json) -> Json:
    """Takes strides for wrong if the elements of one axis lie between those of another axis."""
    axes = sorted(zip(data.get("strides", []), data.get("dims", []), strict=False), reverse=True)
    nested = all(outer >= inner * dim or not inner for (outer, _), (inner, dim) in pairwise(axes))
    return data if nested else {**data, "strides": [-1] * len(axes)}


def _read_as_zero(shape: Json) -> Json:
    """Takes a size that is 0 for the number 0."""
    zeros = [one["index"] for one in shape.get("partial", []) if one.get("interval") == {"max": 0}]
    items = [0 if index in zeros else item for index, item in enumerate(shape.get("items", []))]
    return {"items": items, "partial": [one for one in shape.get("partial", []) if one["index"] not in zeros]}


MISTAKES: dict[str, Callable[[Json], Json]] = {
    "i32 in the graph operations": _change(
        "data", lambda data: {**data, "dataType": "DATA_TYPE_F32"} if data.get("dataType") == "DATA_TYPE_I32" else data
    ),
    "an expected shape is a prefix": _cut,
    "expected only up to an unknown dim": _change("expectedShape", _stop),
    "-2^63 is 0": _change_items(lambda item: 0 if item == -(2**63) else item),
    "interleaved strides are wrong": _change("data", _require_nesting),
    "a size of 0 is the number 0": _change("shape", _read_as_zero),
}

FALSE_CONDITIONS: dict[str, Callable[[Json], Json]] = {
    "the last condition is dropped": lambda answer: {**answer, "conditions": answer["conditions"][:-1]},
    "a divisor is too large": lambda answer: {**answer, "conditions": [*map(_double_divisor, answer["conditions"])]},
    "conditions are always complete": lambda answer: {**answer, "conditionsComplete": True},
    "a condition holds for empty tensors": lambda answer: {
        **answer,
        "conditions": [{key: one[key] for key in one if key != "unlessZero"} for one in answer["conditions"]],
    },
}


def _double_divisor(condition: Json) -> Json:
    if condition["kind"] != "KIND_DIVIDES":
        return condition
    left = condition["left"]
    return {**condition, "left": {**left, "coefficient": 2 * left.get("coefficient", 1)}}


def test_core_conformance_cases_find_false_conditions():
    core = [case for line in read_lines(FOLDER / "cases/core/conditions.jsonl") for case in split_line(line)]
    for name, change in FALSE_CONDITIONS.items():
        answers = [(case, case.right["answer"]) for case in core if "answer" in case.right]
        assert any(judge(case, {"answer": change(one)}).verdict.is_difference for case, one in answers), name


def _finds(case: Case, change: Callable[[Json], Json]) -> bool:
    """Whether a case has a wrong result if its query is read with a mistake."""
    query = change(dict(case.query))
    return query != case.query and judge(case, compute_result(query, case.rule)).verdict.is_difference


def test_core_conformance_cases_find_known_mistakes():
    core = [
        case for path in FILES if path.parent.name == "core" for line in read_lines(path) for case in split_line(line)
    ]
    assert [name for name, change in MISTAKES.items() if not any(_finds(case, change) for case in core)] == []
