"""The files of the conformance kit: each case is as its schema says, and the files are as they are made."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from verification.kit.files import FOLDER, list_files

SCHEMA = json.loads((FOLDER / "schema.json").read_text())
FILES = sorted((FOLDER / "cases").rglob("*.jsonl"))
SIZES = ("core", "full", "hostile")
README = (FOLDER / "README.md").read_text()
NAMES = ["/".join(path.parts[-2:]) for path in FILES]


def read_cases(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_the_files_are_as_they_are_made():
    made = list_files()
    assert sorted(made) == FILES
    assert [str(path) for path, text in made.items() if path.read_text() != text] == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_case_is_as_the_schema_says(path: Path):
    validator = Draft202012Validator(SCHEMA)
    # Most lines of the full size are alike but for their numbers, and each takes a millisecond.
    cases = read_cases(path)[:: 20 if path.parent.name == "full" else 1]
    assert [(case["id"], error.message) for case in cases for error in validator.iter_errors(case)] == []


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
    ("volume/same", {"answer": {"shape": [2, 3], "view": {"possibility": "unknown", "strides": None}}}),
    ("volume/same", {"answer": {"shape": [-1]}}),
    ("volume/same", {"answer": {"shape": [2**63]}}),
    ("volume/same", {"answer": {"shape": [[1, 2]]}}),
    ("volume/same", {"answer": {"shape": [{"min": 1}]}}),
    ("volume/same", {"answer": {"shape": [{"min": -1, "max": 2}]}}),
    ("volume/more-elements", {"answer": {"error": {}}}),
    ("volume/more-elements", {"answer": {"error": {"reason": "not so", "field": "shape"}}}),
    ("layouts/dense", {"answer": {"shape": [6]}}),
    ("layouts/dense", {"answer": {"shape": [6], "view": {"possibility": "possible", "strides": None}}}),
    ("layouts/run-dense", {"answer": {"shape": [3, 2]}}),
    ("layouts/run-dense", {"bytes": "000"}),
]


@pytest.mark.parametrize(("name", "change"), WRONG, ids=repr)
def test_a_case_that_is_none_is_found(name: str, change: dict[str, Any]):
    path = FOLDER / "cases" / "core" / f"{name.partition('/')[0]}.jsonl"
    (case,) = [case for case in read_cases(path) if case["id"] == name]
    validator = Draft202012Validator(SCHEMA)
    assert validator.is_valid(case)
    assert not validator.is_valid(case | change)


def test_an_answer_may_say_less_than_a_case():
    validator = Draft202012Validator({**SCHEMA, "$ref": "#/$defs/answer"})
    answers: list[dict[str, Any]] = [
        {"shape": [[1, 2], {"min": 1, "max": None}, {"min": 1}, None, 2**70], "more": 1},
        {"shape": [1], "view": {"possibility": "possible"}},
        {"error": {}},
        {"unsupported": "it"},
    ]
    assert [answer for answer in answers if not validator.is_valid({"id": "one", **answer})] == []
    assert not validator.is_valid({"shape": [1]})


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_case_is_of_the_rule_of_its_file(path: Path):
    assert {(case["rule"], case["id"].split("/")[0]) for case in read_cases(path)} == {(path.stem, path.stem)}


def test_each_sentence_names_its_source():
    sources = ("oneDNN Graph", "OpenVINO", "this contract")
    cases = [case for path in FILES for case in read_cases(path)]
    assert [case["id"] for case in cases if not any(f"({name}" in case["because"] for name in sources)] == []


def test_no_two_cases_have_one_id():
    names = [case["id"] for path in FILES for case in read_cases(path)]
    assert len(set(names)) == len(names)


def test_a_person_can_read_the_core():
    assert sum(len(read_cases(path)) for path in FILES if path.parent.name == "core") <= 300


def test_the_readme_counts_what_there_is():
    cases = {size: [case for path in FILES if path.parent.name == size for case in read_cases(path)] for size in SIZES}
    counts = {size: (len(found), sum(len(case["operations"]) for case in found)) for size, found in cases.items()}
    table = re.findall(r"^\| `(core|full|hostile)` \| ([\d,]+) \| ([\d,]+) \|", README, re.MULTILINE)
    assert {name: tuple(int(text.replace(",", "")) for text in numbers) for name, *numbers in table} == counts


def test_the_readme_fits_a_page():
    assert len(README.splitlines()) <= 80
