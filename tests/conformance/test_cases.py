"""The cases of the suite."""

import json
from pathlib import Path

from tensor_reshape.conformance.cases import RULES, SUITE, list_cases, read_version, split_line

ROOT = Path(__file__).parents[2]
CASE = {
    "id": "inferred/six",
    "rule": "inferred",
    "operations": ["static_reshape", "reshape"],
    "data": [2, 3],
    "shape": [-1],
    "special_zero": False,
    "answer": {"shape": [6]},
    "because": "So it is.",
}


def test_conformance_case_line_becomes_one_query_per_operation():
    static, reshape = split_line(CASE)
    assert (static.id, reshape.id) == ("inferred/six@static_reshape", "inferred/six@reshape")
    query = {"id": static.id, "operation": "static_reshape", "data": [2, 3], "shape": [-1], "special_zero": False}
    assert static[1:] == ("inferred", query, {"shape": [6]}, "So it is.")
    without = {key: value for key, value in CASE.items() if key != "special_zero"}
    assert all("special_zero" not in case.query for case in split_line(without))


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
