"""The results of a run."""

import json
from pathlib import Path

import pytest

from conformance_runs import BECAUSE, Json, make_case, make_mixed_results, make_results, write_question, write_shape
from tensor_reshape.conformance.results import read_results
from tensor_reshape.conformance.verdicts import Verdict

RESULTS = make_mixed_results()
RECORD: Json = json.loads(RESULTS.write())


def test_conformance_answers_are_counted_by_rule_and_verdict():
    assert RESULTS.counts["inferred"] == {"agrees": 2, "crash": 1, "hang": 1, "wrong_shape": 2}
    assert (RESULTS.total, RESULTS.count(Verdict.AGREES), RESULTS.count(Verdict.CRASH, "partial")) == (9, 2, 0)
    assert RESULTS.list_rules() == ["target", "inferred", "partial"]
    assert (RESULTS.unsupported, RESULTS.other_reasons) == ({"no such thing": 1}, {"OTHER, not NOT_DIVISIBLE": 1})
    assert "partial/not-supported@reshape" not in {one.id for one in RESULTS.differences}


def test_shortest_query_is_the_example_of_a_conformance_difference():
    (one,) = make_results((make_case(), {"id": "inferred/six@reshape", **write_shape(7)})).differences
    assert one._asdict() == {
        "id": "inferred/six@reshape",
        "rule": "inferred",
        "verdict": "wrong_shape",
        "why": "dim 0 is 7, not 6",
        "query": {"question": write_question()},
        "right": write_shape(6),
        "answer": write_shape(7),
        "because": BECAUSE,
    }
    wrong = RESULTS.list_differences("inferred", Verdict.WRONG_SHAPE)
    assert [one.id for one in wrong] == ["inferred/wrong@reshape", "inferred/longer@reshape"]
    assert RESULTS.list_differences("inferred", Verdict.AGREES) == []


def test_conformance_results_survive_writing_and_reading(tmp_path: Path):
    path = tmp_path / "results.json"
    path.write_text(RESULTS.write())
    again = read_results(path)
    assert (again, again.write(), RECORD["format"]) == (RESULTS, RESULTS.write(), 2)
    path.write_text(make_results((make_case(), write_shape(6))).write())
    assert read_results(path).differences == []


OTHER_TEXTS = ("", "[]", "{}", '{"format": 1}', '{"format": 2, "differences": [{}]}', '{"format": 2}', "[" * 100_000)
OTHER_FIELDS: list[Json] = [
    {"another": "field"},
    {"differences": [None]},
    {"differences": {"a": 1}},
    {"differences": [{**RECORD["differences"][0], "verdict": "fine"}]},
]


def test_file_without_conformance_results_is_rejected(tmp_path: Path):
    path = tmp_path / "results.json"
    for text in (*OTHER_TEXTS, *(json.dumps(RECORD | fields) for fields in OTHER_FIELDS)):
        path.write_text(text)
        with pytest.raises(ValueError, match="does not contain results of the conformance suite"):
            read_results(path)
