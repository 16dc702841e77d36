"""Expected differences."""

import json
from pathlib import Path

import pytest

from conformance_runs import BOUNDED, UNRANKED, make_case, make_results, write_shape
from tensor_reshape.conformance.expectations import compare, read_expectation, write_expectation

WRONG, LATER = make_case("inferred/wrong"), make_case("inferred/later")
RESULTS = make_results((WRONG, write_shape(7)), (BOUNDED, UNRANKED), (LATER, write_shape(6)))
RUN = {WRONG.id, BOUNDED.id, LATER.id}
EXPECTED = {WRONG.id: "wrong_shape", BOUNDED.id: "weaker"}


def test_expectation_file_contains_all_differences_of_a_conformance_run(tmp_path: Path):
    path = tmp_path / "expect.json"
    path.write_text(write_expectation(RESULTS))
    assert read_expectation(path) == EXPECTED
    assert compare(RESULTS, EXPECTED, RUN) == ({}, {})
    assert list(json.loads(path.read_text())["differences"]) == sorted(EXPECTED)
    for text in ("", "[]", "{}", '{"differences": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="is not a file of expected differences"):
            read_expectation(path)


def test_conformance_differences_are_compared_with_the_expected_ones():
    assert compare(make_results((WRONG, {"unsupported": "no"})), {}, RUN) == ({}, {})
    assert compare(RESULTS, {BOUNDED.id: "weaker"}, RUN).new == {WRONG.id: "wrong_shape"}
    changed = compare(RESULTS, {**EXPECTED, WRONG.id: "crash"}, RUN)
    assert changed == ({WRONG.id: "wrong_shape"}, {WRONG.id: "crash"})
    expected = {**EXPECTED, LATER.id: "hang", "target/other@reshape": "hang"}  # the last one was not run
    assert compare(RESULTS, expected, RUN) == ({}, {LATER.id: "hang"})
