"""Random cases, and the smallest case with a difference."""

import json
from collections.abc import Sequence

from conformance_runs import make_validator
from tensor_reshape.conformance.cases import RULES, Case, split_line
from tensor_reshape.conformance.random_cases import make_case, make_random_cases, shrink, write_case
from tensor_reshape.conformance.verdicts import CaseVerdict, judge
from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from tests.oracles.second_implementation import answer
from verification.kit import FOLDER

WIDER_ANSWERS = {"partial", "symbols", "conditions"}
"""The rules for which the second implementation may answer wider."""


def _read_data(case: Case) -> list[int]:
    dims: list[int] = case.query["question"]["data"]["shape"].get("dims", [])
    return dims


def test_equal_seeds_make_equal_random_cases():
    assert make_random_cases(50, 7) == make_random_cases(50, 7)
    assert make_random_cases(50, 7) != make_random_cases(50, 8)


def test_random_cases_contain_every_kind_of_query():
    cases = make_random_cases(500, 0)
    assert {case.rule for case in cases} == set(RULES)
    reasons = {case.right["rejection"]["reason"] for case in cases if "rejection" in case.right}
    assert reasons > {"VOLUME_MISMATCH", "NOT_DIVISIBLE", "MINUS_ONE_WITH_ZERO_VOLUME", "INVALID_TARGET_VALUE"}
    assert reasons > {"SPECIAL_ZERO_MISSING", "RANK_UNSUPPORTED", "EXPECTED_SHAPE_MISMATCH", "DATA_SIZE_MISMATCH"}
    questions = [case.query["question"] for case in cases]
    assert any("shape" not in question["data"] and "data" not in question["data"] for question in questions)
    assert any("shape" not in question for question in questions)
    assert any(case.right.get("answer", {}).get("conditions") for case in cases)
    assert sum("answer" in case.right for case in cases) > 230


def test_random_cases_are_answered_by_the_second_implementation():
    cases = make_random_cases(200, 2)
    wrong = {case.id: judge(case, answer(case.query)) for case in cases if case.rule not in WIDER_ANSWERS}
    assert {name: judgement for name, judgement in wrong.items() if judgement.verdict is not CaseVerdict.AGREES} == {}


def test_random_case_that_executes_a_reshape_is_not_shrunk():
    case = next(case for case in make_random_cases(50, 0) if case.rule == "layouts")
    assert shrink(case, "wrong_bytes", lambda cases: {one.id: "wrong_bytes" for one in cases}) is case


def test_shrunk_case_of_conditions_still_asks_for_them():
    case = next(case for case in make_random_cases(200, 0) if case.rule == "conditions" and "answer" in case.right)
    smallest = shrink(case, "weaker", lambda cases: {one.id: "weaker" for one in cases if "answer" in one.right})
    assert (smallest.rule, smallest.right["answer"].keys() >= {"conditions"}) == ("conditions", True)


def test_written_random_case_is_a_line_of_the_suite():
    validator = make_validator(json.loads((FOLDER / "schema.json").read_text()))
    for case in make_random_cases(100, 3):
        line = json.loads(write_case(case))
        assert [*split_line(line)] == [case]
        line["id"] = f"{case.rule}/one"  # the ids of random cases are not in the suite
        assert [error.message for error in validator.iter_errors(line)] == []


def test_shrinking_finds_a_smallest_case_with_the_same_verdict():
    query = Question[Sequence[AnyDim]](RESHAPE, [2, 3, 100], [100, Dim(Interval(0, 8)), -1], special_zero=True)

    def find(cases: Sequence[Case]) -> dict[str, str]:
        return {case.id: "wrong_shape" for case in cases if any(dim >= 7 for dim in _read_data(case))}

    smallest = shrink(make_case("random/1", query), "wrong_shape", find)
    assert (_read_data(smallest), smallest.query["question"]["shape"]) == ([7], {})
    assert smallest.right == {"rejection": {"reason": "VOLUME_MISMATCH", "field": "shape"}}


def test_case_without_a_smaller_difference_is_the_smallest():
    (case,) = make_random_cases(1, 4)
    assert shrink(case, "crash", lambda _: {}) == case
