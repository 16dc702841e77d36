"""Answers as implementations write them, and the verdicts about them."""

from typing import Any

import pytest

from conformance_runs import UNRANKED as NO_RANK
from conformance_runs import Json, make_case, write_shape, write_tensor
from tensor_reshape.conformance.cases import Case, list_cases
from tensor_reshape.conformance.verdicts import (
    CaseVerdict,
    GivenShape,
    InvalidAnswerError,
    Unsupported,
    judge,
    read_answer,
)

REJECTION: Json = {"rejection": {"reason": "NOT_DIVISIBLE"}}
NAMED = make_case("symbols/named", write_shape("N:2..8", 3), data_shape=["N:2..8", 3], shape=["N", 3])
BOUNDED = make_case("partial/bounded", write_shape((3, 6), 4), data_shape=[(2, 4), 6], shape=[-1, 4])
HALVED = make_case(
    "partial/wide", write_shape((2, 9)), data_shape=[(2, 8)], shape=[-1]
)  # the right answer is wider than necessary
UNRANKED = make_case("partial/unranked", NO_RANK, data_shape=[6], shape=None)
KNOWN = make_case()
REJECTED = make_case("inferred/five", REJECTION, shape=[5, -1])
OUTPUT: Json = {"output": write_tensor("DATA_TYPE_U8", [6], b"\x0a\x0b")}
MOVED = make_case("layouts/moved", OUTPUT)
EQUAL = make_case("symbols/equal", write_shape("M:5..8"), data_shape=["N:2..8"], shape=["M:5..20"])
UNNAMED = make_case("symbols/none", write_shape(None, 3), data_shape=["N", 3], shape=[-1, 3])
TWO = make_case(
    "partial/two", write_shape((2, 8), (2, 8)), data_shape=[(2, 8), (2, 8)], shape=(0, 0), special_zero=True
)
LONG = make_case("partial/length", write_shape((128, 160)), data_shape=[2, 2, 8, (4, 5)], shape=[(0, None)])

CONDITIONAL = [case for case in list_cases(["core"], ["conditions"]) if "answer" in case.right]
UNLIMITED = ("divides-by-a-name", "max-of-a-product", "copied-divisor", "copied-divisor-cancels", "unknown-item")
"""Cases with a name N that every limit is wrong for."""

B = {"factors": [{"name": "b"}]}
EVEN: Json = {"kind": "KIND_DIVIDES", "left": {"coefficient": 2}, "right": B}
DONE = {"conditionsComplete": True}
OPEN_END = {"conditionsComplete": False}

SCALAR: dict[str, Any] = {"answer": {"shape": {}}}
INVALID: list[dict[str, Any]] = [
    {},
    {"oh": 1},
    {"answer": 4},
    {"answer": [6]},
    {"answer": {"shape": [6]}},
    {"answer": {"shape": {"dims": 4}}},
    {"answer": {"shape": {"dims": "2,3"}}},
    {"answer": {"shape": {"dims": [True]}}},
    {"answer": {"shape": {"dims": [2.5]}}},
    {"answer": {"shape": {"dims": ["N"]}}},
    {"answer": {"shape": {"dims": [None]}}},
    {"answer": {"shape": {"dims": [1] * 5000}}},
    {"answer": {"shape": {"dims": [2], "partial": [{"index": 0}]}}},
    {"answer": {"shape": {"dims": [-1], "partial": [{"index": 0, "interval": {"min": 8, "max": 2}}]}}},
    {"answer": {"shape": {"dims": [-1], "partial": [{"index": 0, "symbol": {"name": ""}}]}}},
    {**SCALAR, "rejection": {}},
    {**SCALAR, "unsupported": "both"},
    {"rejection": None},
    {"output": {"dims": [1], "data": 1}},
    {"output": {"dims": [1], "data": "?"}},
    {"output": {"dims": [-1], "data": "AA=="}},
    {"output": {"dims": [1] * 5000, "data": "AA=="}},
]
INVALID_CONDITIONS: list[object] = [
    {},
    ["2 divides b"],
    [{**EVEN, "kind": "KIND_OTHER"}],
    [{**EVEN, "kind": 0}],
    [{"kind": "KIND_EQUAL", "left": {}}],
    [{**EVEN, "kind": "KIND_RANGE", "min": 1}],
    [{"kind": "KIND_RANGE", "left": {"factors": [{"name": "b"}]}}],
    [{**EVEN, "left": {"factors": [{"name": "b"}], "divisors": [{"name": "b"}]}}],
    [{**EVEN, "right": {"divisor": 7}}],
    [{**EVEN, "right": {"factors": [{"name": ""}]}}],
    [{**EVEN, "left": {"coefficient": -1}}],
    [{**EVEN, "left": {"divisor": 0}}],
    [{**EVEN, "left": {"factors": [{"name": "b"}], "divisor": 0}}],
    [{"kind": "KIND_RANGE", "left": {}, "min": -1}],
    [{"kind": "KIND_RANGE", "left": {}, "max": "x"}],
    [EVEN] * 1001,
]


def halve(*conditions: object, **more: object) -> Json:
    return write_shape(4, "3*b/2", conditions=[*conditions], **more)


DIVIDED = make_case("conditions/divides", halve(EVEN, **DONE), data_shape=["b", 6], shape=[4, -1])
OPEN = make_case(
    "conditions/open",
    halve(EVEN),
    data_shape=["b", 6],
    shape=[None, 4],
    special_zero=True,
)

UNCONDITIONAL = make_case("conditions/unranked", {"answer": {"conditions": [], **OPEN_END}}, data_shape=[6], shape=None)

VERDICTS: list[tuple[Case, Json, str]] = [
    (KNOWN, write_shape(6), "agrees"),
    (KNOWN, write_shape(7), "wrong_shape"),
    (KNOWN, {"answer": {"shape": {"dims": [-2]}}}, "wrong_shape"),
    (KNOWN, write_shape(6, 1), "wrong_shape"),
    (KNOWN, write_shape(None), "weaker"),
    (KNOWN, write_shape((5, 7)), "weaker"),
    (KNOWN, write_shape((7, 9)), "wrong_shape"),
    (KNOWN, NO_RANK, "weaker"),
    (KNOWN, {"answer": {"shape": {"dims": [6.5]}}}, "garbage"),
    (KNOWN, {"answer": [6]}, "garbage"),
    (KNOWN, REJECTION, "spurious_error"),
    (KNOWN, {"unsupported": "no"}, "unsupported"),
    (REJECTED, {"unsupported": "no"}, "unsupported"),
    (REJECTED, REJECTION, "agrees"),
    (REJECTED, {"rejection": {"reason": "OTHER"}}, "agrees"),
    (REJECTED, write_shape(5, 1), "missing_error"),
    (REJECTED, NO_RANK, "missing_error"),
    (BOUNDED, write_shape((3, 6), 4), "agrees"),
    (BOUNDED, write_shape((2, 6), 4), "weaker"),
    (BOUNDED, write_shape((3, None), 4), "weaker"),
    (BOUNDED, write_shape((4, 6), 4), "wrong_shape"),
    (BOUNDED, write_shape((3, 5), 4), "wrong_shape"),
    (BOUNDED, write_shape((4, 9), 4), "wrong_shape"),
    (BOUNDED, write_shape(3, 4), "wrong_shape"),
    (HALVED, write_shape((2, 8)), "tighter"),
    (HALVED, write_shape((2, 7)), "wrong_shape"),
    (HALVED, write_shape((0, 8)), "weaker"),
    (UNRANKED, NO_RANK, "agrees"),
    (UNRANKED, write_shape(6), "wrong_shape"),
    (NAMED, write_shape((2, 8), 3), "weaker"),
    (NAMED, write_shape("unk__0:2..8", 3), "weaker"),
    (NAMED, write_shape("2*N:2..8", 3), "wrong_shape"),
    (NAMED, write_shape("N", 3), "weaker"),
    (MOVED, OUTPUT, "agrees"),
    (MOVED, {"output": write_tensor("DATA_TYPE_U8", [6], b"\x0b\x0a")}, "wrong_bytes"),
    (MOVED, write_shape(6), "weaker"),
    (DIVIDED, write_shape(4, "3*b/2"), "unsupported"),
    (DIVIDED, write_shape(4, None), "weaker"),
    (DIVIDED, write_shape(4, 6), "wrong_shape"),
    (DIVIDED, NO_RANK, "weaker"),
    (DIVIDED, {"rejection": {}}, "spurious_error"),
    (UNCONDITIONAL, NO_RANK, "unsupported"),
    (UNCONDITIONAL, {"answer": OPEN_END}, "agrees"),
    (DIVIDED, halve(EVEN, **DONE), "agrees"),
    (DIVIDED, halve({**EVEN, "left": {"coefficient": 4}, "right": {**B, "coefficient": 6}}, **DONE), "agrees"),
    (DIVIDED, halve(**DONE), "wrong_shape"),
    (DIVIDED, halve(), "weaker"),
    (DIVIDED, halve(EVEN), "weaker"),
    (DIVIDED, halve({**EVEN, "left": {"coefficient": 4}}, **DONE), "wrong_shape"),
    (DIVIDED, halve(EVEN, {"kind": "KIND_RANGE", "left": B, "min": 1}, **DONE), "wrong_shape"),
    (DIVIDED, halve({**EVEN, "right": {"factors": [{"name": "h"}]}}, **DONE), "wrong_shape"),
    (DIVIDED, halve("2 divides b"), "garbage"),
    (DIVIDED, halve({**EVEN, "left": {"divisor": 0}}), "garbage"),
    (OPEN, write_shape("3*b/2", 4, conditions=[EVEN], conditionsComplete=True), "wrong_shape"),
    # A name may be any of those that the query makes equal, or an additional one that no instance contradicts.
    (EQUAL, write_shape("N:5..8"), "agrees"),
    (UNNAMED, write_shape("N", 3), "tighter"),
    (UNNAMED, write_shape("2*N", 3), "wrong_shape"),
    # The worst dim counts, and an excluded instance.
    (TWO, write_shape((1, 8), (2, 7)), "wrong_shape"),
    (LONG, write_shape((129, 160)), "wrong_shape"),
    (LONG, write_shape((128, 159)), "wrong_shape"),
]


def test_judge_returns_the_expected_verdict_for_each_answer():
    for case, record, verdict in VERDICTS:
        assert judge(case, record).verdict == verdict, (case.id, record)
    assert judge(BOUNDED, write_shape((4, 6), 4)).why == "dimension 0 is 4..6, not 3..6: [2, 6] to [-1, 4] gives [3, 4]"


def test_answer_with_one_name_for_different_dims_is_wrong():
    case = make_case("symbols/none", write_shape(None, None), data_shape=[None, None], shape=[0, 0], special_zero=True)
    assert judge(case, write_shape("z", "y")).verdict == "agrees"
    wrong = judge(case, write_shape("z", "z"))
    assert (wrong.verdict, wrong.why.partition(":")[0]) == ("wrong_shape", "dimensions [0, 1] are not all z")


def test_wrong_conditions_are_shown_with_the_values_that_contradict_them():
    four = halve({**EVEN, "left": {"coefficient": 4}}, **DONE)
    assert judge(DIVIDED, four).why == "the condition 4 divides b excludes b = 2, which is accepted"
    assert judge(DIVIDED, halve(**DONE)).why == "the conditions admit b = 1, which is rejected"


def limit(name: str, **limits: int) -> Json:
    return {"kind": "KIND_RANGE", "left": {"factors": [{"name": name}]}, **limits}


@pytest.mark.parametrize("max_", [10, 100, 2**31 - 1, 2**53, 2**62])
def test_limits_that_no_accepted_case_has_are_wrong(max_: int):
    free = make_case("conditions/free", write_shape("N", conditions=[], **DONE), data_shape=["N"], shape=[-1])
    assert judge(free, write_shape("N", conditions=[limit("N", max=max_)], **DONE)).verdict == "wrong_shape"
    assert judge(free, write_shape("N", conditions=[limit("N", max=2**63 - 1)], **DONE)).verdict == "agrees"
    assert judge(DIVIDED, halve(EVEN, limit("b", max=max_), **DONE)).verdict == "wrong_shape"
    for case in (one for one in CONDITIONAL if one.id.split("/")[1] in UNLIMITED):
        answer = case.right["answer"]
        limited = {**answer, "conditions": [*answer["conditions"], limit("N", max=max_)]}
        assert judge(case, {"answer": limited}).verdict == "wrong_shape", case.id


def test_scaled_limits_and_divisors_beyond_usual_candidates_are_wrong():
    (divided,) = (case for case in CONDITIONAL if case.id == "conditions/divides-by-a-name@reshape")
    answer, n = divided.right["answer"], [{"name": "N"}]
    for more in (
        {"kind": "KIND_RANGE", "left": {"coefficient": 4, "factors": n}, "max": 2**63 - 1},
        {"kind": "KIND_RANGE", "left": {"factors": n, "divisor": 1000}, "max": 7},
        {"kind": "KIND_RANGE", "left": {"factors": [*n, *n]}, "max": 2**40},
        {"kind": "KIND_DIVIDES", "left": {"factors": [{"name": "M"}]}, "right": {"coefficient": 5040}},
    ):
        wrong = {**answer, "conditions": [*answer["conditions"], more]}
        assert judge(divided, {"answer": wrong}).verdict == "wrong_shape", more


def test_correct_conformance_results_have_no_differences():
    assert {verdict for verdict in CaseVerdict if not verdict.is_difference} == {"agrees", "tighter", "unsupported"}
    cases = list_cases(["core"])
    assert [case.id for case in cases if judge(case, case.right).verdict != "agrees"] == []


def test_conformance_answer_is_parsed_as_shape_output_rejection_or_unsupported():
    assert read_answer({"answer": {"more": 1}, "more": 1}) == GivenShape(None, conditions_complete=False)
    assert read_answer({**SCALAR, "rejection": None, "unsupported": None}).dims == ()  # type: ignore[union-attr]
    output = {"output": write_tensor("DATA_TYPE_U8", [2], b"\x0a\x0b")}
    assert read_answer(output) == GivenShape((2,), b"\x0a\x0b")
    for error in ({"reason": "NO", "field": "x"}, {}, "no", {"reason": 1}):
        assert read_answer({"rejection": error}) is None
    assert read_answer({"unsupported": "no data", "answer": None}) == Unsupported("no data")


@pytest.mark.parametrize("record", INVALID, ids=lambda record: repr(record)[:40])
def test_invalid_conformance_answer_records_are_rejected(record: dict[str, Any]):
    with pytest.raises(InvalidAnswerError):
        read_answer(record)


@pytest.mark.parametrize("conditions", INVALID_CONDITIONS, ids=range(len(INVALID_CONDITIONS)))
def test_malformed_conditions_are_rejected(conditions: object):
    with pytest.raises(InvalidAnswerError):
        read_answer(write_shape(2, conditions=conditions))
