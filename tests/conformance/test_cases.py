"""The cases as questions."""

import json
from pathlib import Path

from tensor_reshape.conformance.cases import KIT, RULES, list_questions, read_version, split_case

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


def test_case_becomes_a_query_without_its_answer():
    static, reshape = split_case(CASE)
    assert (static.id, reshape.id) == ("inferred/six@static_reshape", "inferred/six@reshape")
    asked = {"id": static.id, "operation": "static_reshape", "data": [2, 3], "shape": [-1], "special_zero": False}
    assert static[1:] == ("inferred", asked, {"shape": [6]}, "So it is.")
    without = {key: value for key, value in CASE.items() if key != "special_zero"}
    assert all("special_zero" not in question.asked for question in split_case(without))


def test_kit_is_found_once_by_size_and_rule():
    files = sorted((ROOT / "conformance" / "cases").rglob("*.jsonl"))
    cases = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    questions = list_questions({file.parent.name for file in files})
    assert len({one.id for one in questions}) == len(questions) == sum(len(case["operations"]) for case in cases)
    assert {one.rule for one in list_questions(["core"], ["target", "partial"])} == {"target", "partial"}
    assert list_questions([]) == []


def test_runner_uses_the_cases_of_the_repository():
    schema = json.loads((ROOT / "conformance" / "schema.json").read_text())
    assert tuple(schema["$defs"]["case"]["properties"]["rule"]["enum"]) == RULES
    assert read_version() == (ROOT / "conformance" / "VERSION").read_text().strip()
    assert KIT == ROOT / "conformance"
    assert not any(path.is_symlink() for path in (ROOT / "tools" / "tensor_reshape" / "conformance").iterdir())
