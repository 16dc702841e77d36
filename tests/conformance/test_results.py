"""What came of a run, counted and kept."""

import json
from pathlib import Path

import pytest

from conformance_runs import BECAUSE, SIX, make_mixed_results, make_question, make_results
from tensor_reshape.conformance.results import read_results
from tensor_reshape.conformance.verdicts import Verdict

RESULTS = make_mixed_results()


def test_answers_are_counted_by_rule_and_verdict():
    assert RESULTS.counts["inferred"] == {"agrees": 2, "crash": 1, "hang": 1, "wrong_shape": 2}
    assert (RESULTS.total, RESULTS.count(Verdict.AGREES), RESULTS.count(Verdict.CRASH, "partial")) == (9, 2, 0)
    assert RESULTS.list_rules() == ["target", "inferred", "partial"]


def test_what_is_not_offered_and_other_reasons_are_told_and_no_differences():
    assert (RESULTS.unsupported, RESULTS.other_reasons) == ({"no such thing": 1}, {"OTHER, not NOT_DIVISIBLE": 1})
    assert "partial/not-offered@reshape" not in {one.id for one in RESULTS.differences}


def test_a_difference_is_kept_whole():
    (one,) = make_results((make_question(), {"id": "inferred/six@reshape", "shape": [7]})).differences
    assert one._asdict() == {
        "id": "inferred/six@reshape",
        "rule": "inferred",
        "verdict": "wrong_shape",
        "why": "dim 0 is 7, not 6",
        "question": {"operation": "reshape", **SIX},
        "right": {"shape": [6]},
        "answer": {"shape": [7]},
        "because": BECAUSE,
    }


def test_the_smallest_example_is_the_shortest_question():
    smallest = RESULTS.find_smallest("inferred", Verdict.WRONG_SHAPE)
    assert smallest is not None
    assert smallest.id == "inferred/wrong@reshape"
    assert RESULTS.find_smallest("inferred", Verdict.AGREES) is None


def test_what_is_written_is_read_back(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text(RESULTS.write())
    again = read_results(path)
    assert again == RESULTS
    assert again.write() == RESULTS.write()
    assert json.loads(RESULTS.write())["format"] == 1
    path.write_text(make_results((make_question(), {"shape": [6]})).write())
    assert read_results(path).differences == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "differences": [{}]}', '{"format": 1}']
)
def test_another_file_is_refused(tmp_path: Path, text: str):
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="has no results of the conformance kit"):
        read_results(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("implementation", None),
        ("versions", {"numpy": 2}),
        ("sizes", "core"),
        ("sizes", [1]),
        ("counts", []),
        ("counts", {"target": 1}),
        ("counts", {"target": {"agrees": "1"}}),
        ("counts", {"target": {"agrees": True}}),
        ("differences", [None]),
        ("differences", {"a": 1}),
    ],
)
def test_results_of_other_types_are_refused(tmp_path: Path, name: str, value: object):
    path = tmp_path / "results.json"
    path.write_text(json.dumps(json.loads(RESULTS.write()) | {name: value}))
    with pytest.raises(ValueError, match="has no results of the conformance kit"):
        read_results(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [("id", 1), ("verdict", "fine"), ("verdict", []), ("question", None), ("right", []), ("answer", [6]), ("why", {})],
)
def test_a_difference_of_other_types_is_refused(tmp_path: Path, name: str, value: object):
    record = json.loads(RESULTS.write())
    record["differences"][0][name] = value
    path = tmp_path / "results.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="has no results of the conformance kit"):
        read_results(path)


def test_results_nested_too_deep_are_refused(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="has no results of the conformance kit"):
        read_results(path)
