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


def test_a_case_is_asked_for_each_of_its_operations_and_keeps_its_answer_to_itself():
    static, reshape = split_case(CASE)
    assert (static.id, reshape.id) == ("inferred/six@static_reshape", "inferred/six@reshape")
    assert static[1:] == (
        "inferred",
        {"id": static.id, "operation": "static_reshape", "data": [2, 3], "shape": [-1], "special_zero": False},
        {"shape": [6]},
        "So it is.",
    )


def test_what_a_case_does_not_say_is_not_asked():
    (question,) = split_case(
        {key: value for key, value in CASE.items() if key != "special_zero"} | {"operations": ["reshape"]}
    )
    assert "special_zero" not in question.asked


def test_all_cases_of_the_kit_are_found_once():
    files = sorted((ROOT / "conformance" / "cases").rglob("*.jsonl"))
    cases = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    questions = list_questions({file.parent.name for file in files})
    assert (
        len({question.id for question in questions}) == len(questions) == sum(len(case["operations"]) for case in cases)
    )


def test_sizes_and_rules_are_chosen():
    questions = list_questions(["core"], ["target", "partial"])
    assert {question.rule for question in questions} == {"target", "partial"}
    assert list_questions([]) == []


def test_the_rules_are_those_of_the_schema():
    schema = json.loads((ROOT / "conformance" / "schema.json").read_text())
    assert tuple(schema["$defs"]["case"]["properties"]["rule"]["enum"]) == RULES


def test_the_version_is_that_of_the_kit():
    assert read_version() == (ROOT / "conformance" / "VERSION").read_text().strip()


def test_the_repository_has_one_copy_of_the_kit():
    assert KIT == ROOT / "conformance"
    assert not any(path.is_symlink() for path in (ROOT / "client" / "tensor_reshape" / "conformance").iterdir())
