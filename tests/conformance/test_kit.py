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


def test_a_case_that_is_none_is_found():
    (case, *_) = read_cases(FOLDER / "cases" / "core" / "volume.jsonl")
    broken = [{**case, "rule": "none"}, {**case, "data": [True]}, {**case, "bytes": "00"}, {**case, "answer": {}}]
    assert [one for one in broken if Draft202012Validator(SCHEMA).is_valid(one)] == []


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_each_case_is_of_the_rule_of_its_file(path: Path):
    assert {case["rule"] for case in read_cases(path)} == {path.stem}


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
