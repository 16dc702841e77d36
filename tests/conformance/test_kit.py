"""The files of the conformance kit: each case is as its schema says, and each answer is that of the rules."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tensor_reshape.conformance.cases import split_line
from tensor_reshape.conformance.verdicts import judge
from tensor_reshape.rules.json_format import Json
from verification.kit.answers import compute_answer
from verification.kit.files import FOLDER, is_stale, list_files
from verification.kit.questions import is_known

SCHEMA = json.loads((FOLDER / "schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
FILES = list_files()
CASES = {path: [json.loads(line) for line in path.read_text().splitlines()] for path in FILES}


@pytest.mark.repository  # it asks the rules all questions again, which takes 20 s
def test_each_conformance_case_agrees_with_the_rules():
    assert [case["id"] for path in FILES for case in CASES[path] if is_stale(case)] == []


@pytest.mark.parametrize("path", FILES, ids=["/".join(path.parts[-2:]) for path in FILES])
def test_each_conformance_case_follows_the_json_schema(path: Path):
    # Most lines of the full size are alike but for their numbers, and each takes a millisecond.
    cases = CASES[path][:: 20 if path.parent.name == "full" else 1]
    assert [(case["id"], error.message) for case in cases for error in VALIDATOR.iter_errors(case)] == []
    assert {(case["rule"], case["id"].split("/")[0]) for case in CASES[path]} == {(path.stem, path.stem)}


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("volume/same", {"rule": "none"}),
    ("volume/same", {"id": "volume/Same"}),
    ("volume/same", {"operation": "reshape"}),
    ("volume/same", {"operations": []}),
    ("volume/same", {"special_zero": None}),
    ("volume/same", {"because": ""}),
    ("volume/same", {"data": [True]}),
    ("volume/same", {"data": [2.5]}),
    ("volume/same", {"data": [[1]]}),
    ("volume/same", {"data": [""]}),
    ("volume/same", {"expected": None}),
    ("volume/same", {"bytes": "00"}),
    ("volume/same", {"answer": {}}),
    ("volume/same", {"answer": {"unsupported": "it"}}),
    ("volume/same", {"answer": {"shape": [2, 3], "more": 1}}),
    ("volume/same", {"answer": {"shape": [2, 3], "bytes": "00"}}),
    ("volume/same", {"answer": {"shape": [2, 3], "view": None}}),
    ("volume/same", {"strides": [3, 1]}),
    ("volume/same", {"answer": {"shape": [-1]}}),
    ("volume/same", {"answer": {"shape": [2**63]}}),
    ("volume/same", {"answer": {"shape": [[1, 2]]}}),
    ("volume/same", {"answer": {"shape": [{"min": 1}]}}),
    ("volume/same", {"answer": {"shape": [{"min": -1, "max": 2}]}}),
    ("volume/more-elements", {"answer": {"error": {}}}),
    ("volume/more-elements", {"answer": {"error": {"reason": "not so", "field": "shape"}}}),
    ("layouts/run-dense", {"answer": {"shape": [3, 2]}}),
    ("layouts/run-dense", {"bytes": "000"}),
]


def test_json_schema_rejects_invalid_conformance_cases():
    Draft202012Validator.check_schema(SCHEMA)
    cases = {case["id"]: case for path in FILES if path.parent.name == "core" for case in CASES[path]}
    for name, change in WRONG:
        assert VALIDATOR.is_valid(cases[name]), name
        assert not VALIDATOR.is_valid(cases[name] | change), (name, change)


def test_answer_schema_accepts_less_precise_answers_than_cases():
    validator = Draft202012Validator({**SCHEMA, "$ref": "#/$defs/answer"})
    answers: list[dict[str, Any]] = [
        {"shape": [[1, 2], {"min": 1, "max": None}, {"min": 1}, None, 2**70], "more": 1},
        {"error": {}},
        {"unsupported": "it"},
    ]
    assert [answer for answer in answers if not validator.is_valid({"id": "one", **answer})] == []
    assert not validator.is_valid({"shape": [1]})


def test_each_conformance_case_has_a_unique_id_and_a_source():
    cases = [case for path in FILES for case in CASES[path]]
    assert len({case["id"] for case in cases}) == len(cases)
    sources = ("oneDNN Graph", "OpenVINO", "ONNX", "a rule of tensor-reshape")
    assert [case["id"] for case in cases if not any(f"({name}" in case["because"] for name in sources)] == []


def _change(key: str, change: Callable[[Any], Any]) -> Callable[[Json], Json]:
    return lambda query: {**query, key: change(query[key])} if query.get(key) else query


def _cut(query: Json) -> Json:
    """Compares an expected shape only as far as both shapes have dims."""
    if "expected" not in query or query["shape"] is None:
        return query
    rank = len(query["shape"])
    return {**query, "expected": (query["expected"] + [None] * rank)[:rank]}


def _stop(expected: list[object]) -> list[object]:
    end = expected.index(None) if None in expected else len(expected)
    return [*expected[:end], *[None] * (len(expected) - end)]


def _require_nesting(query: Json) -> Json:
    """Takes strides for wrong if the elements of one axis lie between those of another axis."""
    axes = sorted(zip(query.get("strides") or (), query["data"] or (), strict=False), reverse=True)
    nested = all(outer >= inner * dim or not inner for (outer, _), (inner, dim) in pairwise(axes))
    return query if nested or not is_known(query) else {**query, "strides": [-1] * len(axes)}


MISTAKES: dict[str, Callable[[Json], Json]] = {
    "i32 in the graph operations": _change("data_type", lambda name: "f32" if name == "i32" else name),
    "an expected shape is a prefix": _cut,
    "expected only up to an unknown dim": _change("expected", _stop),
    "-2^63 is 0": _change("shape", lambda items: [0 if item == -(2**63) else item for item in items]),
    "interleaved strides are wrong": _require_nesting,
    "[0, 0] is 0": _change("shape", lambda items: [0 if item == [0, 0] else item for item in items]),
}


FALSE_CONDITIONS: dict[str, Callable[[Json], Json]] = {
    "the last condition is dropped": lambda answer: {**answer, "conditions": answer["conditions"][:-1]},
    "a divisor is too large": lambda answer: {**answer, "conditions": [*map(_double_divisor, answer["conditions"])]},
    "conditions are always complete": lambda answer: {**answer, "conditions_complete": True},
    "a condition holds for empty tensors": lambda answer: {
        **answer,
        "conditions": [{key: one[key] for key in one if key != "unless_zero"} for one in answer["conditions"]],
    },
}


def _double_divisor(condition: Json) -> Json:
    return {**condition, "left": f"2*{condition['left']}"} if condition["kind"] == "divides" else condition


def test_core_conformance_cases_find_false_conditions():
    core = [case for line in CASES[FOLDER / "cases/core/conditions.jsonl"] for case in split_line(line)]
    for name, change in FALSE_CONDITIONS.items():
        assert any(judge(case, change(dict(case.right))).verdict.is_difference for case in core), name


def test_core_conformance_cases_find_known_mistakes():
    core = [case for path in FILES if path.parent.name == "core" for line in CASES[path] for case in split_line(line)]
    found = {
        name: [case.id for case in core if judge(case, compute_answer(change(dict(case.query)))).verdict.is_difference]
        for name, change in MISTAKES.items()
    }
    assert [name for name, ids in found.items() if not ids] == []
