"""Differences that are agreed to."""

import json
from pathlib import Path

import pytest

from conformance_runs import BOUNDED, make_question, make_results
from tensor_reshape.conformance.expectations import compare, read_expectation, write_expectation

WRONG, LATER = make_question("inferred/wrong"), make_question("inferred/later")
RESULTS = make_results((WRONG, {"shape": [7]}), (BOUNDED, {"shape": None}), (LATER, {"shape": [6]}))
ASKED = {WRONG.id, BOUNDED.id, LATER.id}
AGREED = {WRONG.id: "wrong_shape", BOUNDED.id: "weaker"}


def test_file_agrees_to_all_differences_of_a_run(tmp_path: Path):
    path = tmp_path / "expect.json"
    path.write_text(write_expectation(RESULTS))
    assert read_expectation(path) == AGREED
    assert compare(RESULTS, AGREED, ASKED) == ({}, {})
    assert list(json.loads(path.read_text())["differences"]) == sorted(AGREED)
    for text in ("", "[]", "{}", '{"differences": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="does not contain agreed differences"):
            read_expectation(path)


def test_differences_are_new_changed_or_gone():
    assert compare(make_results((WRONG, {"unsupported": "no"})), {}, ASKED) == ({}, {})
    assert compare(RESULTS, {BOUNDED.id: "weaker"}, ASKED).new == {WRONG.id: "wrong_shape"}
    changed = compare(RESULTS, {**AGREED, WRONG.id: "crash"}, ASKED)
    assert changed == ({WRONG.id: "wrong_shape"}, {WRONG.id: "crash"})
    agreed = {**AGREED, LATER.id: "hang", "target/other@reshape": "hang"}  # the last one was not asked
    assert compare(RESULTS, agreed, ASKED) == ({}, {LATER.id: "hang"})
