"""Random cases, and the smallest case with a difference."""

import json
from collections.abc import Sequence

from conformance_runs import make_validator
from tensor_reshape.conformance.cases import Case, split_line
from tensor_reshape.conformance.random_cases import make_case, make_random_cases, shrink, write_case
from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import Question
from verification.kit import FOLDER


def _read_data(case: Case) -> list[int]:
    dims: list[int] = case.query["question"]["data"]["shape"].get("dims", [])
    return dims


def test_equal_seeds_make_equal_random_cases():
    assert make_random_cases(50, 7) == make_random_cases(50, 7)
    assert make_random_cases(50, 7) != make_random_cases(50, 8)


def test_random_cases_contain_every_kind_of_query():
    cases = make_random_cases(500, 0)
    assert {case.rule for case in cases} == {"symbols", "partial", "copies", "target", "inferred", "volume"}
    reasons = {case.right["rejection"]["reason"] for case in cases if "rejection" in case.right}
    assert reasons > {"VOLUME_MISMATCH", "NOT_DIVISIBLE", "MINUS_ONE_WITH_ZERO_VOLUME", "INVALID_TARGET_VALUE"}
    assert sum("answer" in case.right for case in cases) > 250


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
