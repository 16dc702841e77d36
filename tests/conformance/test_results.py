"""The results of a run."""

import json

from conformance_runs import BECAUSE, HOSTILE, make_case, make_mixed_results, make_results, write_question, write_shape
from tensor_reshape.conformance.results import measure_query
from tensor_reshape.conformance.verdicts import Verdict

RESULTS = make_mixed_results()


def test_conformance_answers_are_counted_by_rule_and_verdict():
    assert RESULTS.counts["inferred"] == {"agrees": 2, "crash": 1, "hang": 1, "wrong_shape": 2}
    assert [RESULTS.count(verdict) for verdict in (Verdict.AGREES, Verdict.CRASH, Verdict.WRONG_BYTES)] == [2, 1, 0]
    assert RESULTS.unsupported == {"no such thing": 1}
    assert "partial/not-supported@reshape" not in {one.id for one in RESULTS.differences}


def test_conformance_results_have_the_name_that_the_program_sends():
    assert (RESULTS.implementation, RESULTS.versions) == ("mine", {"lib": "1.2"})


def test_conformance_difference_has_the_query_and_both_answers():
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
    assert one.describe() == [
        "  case     reshape of [2, 3] to [-1], special_zero false",
        "  expected [6]",
        "  answer   [7]",
        "  differs  dim 0 is 7, not 6",
        f"  because  {BECAUSE}",
    ]


def test_shortest_query_is_the_smallest_conformance_difference():
    wrong = [one for one in RESULTS.differences if one.verdict is Verdict.WRONG_SHAPE]
    assert min(wrong, key=measure_query).id == "inferred/wrong@reshape"


def test_crash_is_described_without_an_answer():
    (crash,) = [one for one in RESULTS.differences if one.verdict is Verdict.CRASH]
    assert [line.split()[0] for line in crash.describe()] == ["case", "expected", "differs", "because"]
    assert crash.why == f"SIGSEGV: {HOSTILE}"


def test_conformance_results_are_written_as_json():
    record = json.loads(json.dumps(RESULTS.to_json()))
    assert (record["implementation"], record["sizes"], record["counts"]) == ("mine", ["core"], RESULTS.counts)
    assert record["differences"][0]["verdict"] == RESULTS.differences[0].verdict
