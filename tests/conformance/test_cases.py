"""The cases of the suite."""

import json
from pathlib import Path

from tensor_reshape.conformance.cases import RULES, SUITE, list_cases, read_version, split_line

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
