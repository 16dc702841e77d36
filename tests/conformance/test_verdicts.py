"""The verdicts about answers."""

from conformance_runs import Json, make_case
from tensor_reshape.conformance.cases import Case, list_cases
from tensor_reshape.conformance.verdicts import Verdict, find_other_reason, judge

REJECTION: Json = {"error": {"reason": "NOT_DIVISIBLE"}}
NAMED = make_case(
    "symbols/named", {"shape": [{"min": 2, "max": 8, "name": "N"}, 3]}, data=["N:2..8", 3], shape=["N", 3]
)
BOUNDED = make_case("partial/bounded", {"shape": [{"min": 3, "max": 6}, 4]}, data=[[2, 4], 6], shape=[-1, 4])
HALVED = make_case(
    "partial/wide", {"shape": [{"min": 2, "max": 9}]}, data=[[2, 8]], shape=[-1]
)  # the right answer is wider than necessary
UNRANKED = make_case("partial/unranked", {"shape": None}, data=[6], shape=None)
KNOWN = make_case()
REJECTED = make_case("inferred/five", REJECTION, shape=[5, -1])
MOVED = make_case("layouts/moved", {"shape": [6], "bytes": "0a0b"})
EQUAL = make_case("symbols/equal", {"shape": [{"min": 5, "max": 8, "name": "M"}]}, data=["N:2..8"], shape=["M:5..20"])
UNNAMED = make_case("symbols/none", {"shape": [None, 3]}, data=["N", 3], shape=[-1, 3])
TWO = make_case(
    "partial/two", {"shape": [{"min": 2, "max": 8}] * 2}, data=[[2, 8], [2, 8]], shape=[0, 0], special_zero=True
)
LONG = make_case("partial/length", {"shape": [[128, 160]]}, data=[2, 2, 8, [4, 5]], shape=[[0, None]])

EVEN = {"kind": "divides", "left": "2", "right": "b"}
HALF: Json = {"shape": [4, {"min": 0, "max": None, "name": "3*b/2"}]}
DIVIDED = make_case(
    "conditions/divides", {**HALF, "conditions": [EVEN], "conditions_complete": True}, data=["b", 6], shape=[4, -1]
)
OPEN = make_case(
    "conditions/open",
    {**HALF, "conditions": [EVEN], "conditions_complete": False},
    data=["b", 6],
    shape=[None, 4],
    special_zero=True,
)


VERDICTS: list[tuple[Case, Json, str]] = [
    (KNOWN, {"shape": [6]}, "agrees"),
    (KNOWN, {"shape": [7]}, "wrong_shape"),
    (KNOWN, {"shape": [-1]}, "wrong_shape"),
    (KNOWN, {"shape": [6, 1]}, "wrong_shape"),
    (KNOWN, {"shape": [None]}, "weaker"),
    (KNOWN, {"shape": [[5, 7]]}, "weaker"),
    (KNOWN, {"shape": [[7, 9]]}, "wrong_shape"),
    (KNOWN, {"shape": None}, "weaker"),
    (KNOWN, {"shape": [6.0]}, "garbage"),
    (KNOWN, {"answer": [6]}, "garbage"),
    (KNOWN, REJECTION, "spurious_error"),
    (KNOWN, {"unsupported": "no"}, "unsupported"),
    (REJECTED, {"unsupported": "no"}, "unsupported"),
    (REJECTED, REJECTION, "agrees"),
    (REJECTED, {"error": {"reason": "OTHER"}}, "agrees"),
    (REJECTED, {"shape": [5, 1]}, "missing_error"),
    (REJECTED, {"shape": None}, "missing_error"),
    (BOUNDED, {"shape": [[3, 6], 4]}, "agrees"),
    (BOUNDED, {"shape": [[2, 6], 4]}, "weaker"),
    (BOUNDED, {"shape": [[3, None], 4]}, "weaker"),
    (BOUNDED, {"shape": [[4, 6], 4]}, "wrong_shape"),
    (BOUNDED, {"shape": [[3, 5], 4]}, "wrong_shape"),
    (BOUNDED, {"shape": [[4, 9], 4]}, "wrong_shape"),
    (BOUNDED, {"shape": [3, 4]}, "wrong_shape"),
    (HALVED, {"shape": [[2, 8]]}, "tighter"),
    (HALVED, {"shape": [[2, 7]]}, "wrong_shape"),
    (HALVED, {"shape": [[0, 8]]}, "weaker"),
    (UNRANKED, {"shape": None}, "agrees"),
    (UNRANKED, {"shape": [6]}, "wrong_shape"),
    (NAMED, {"shape": ["N:2..8", 3]}, "garbage"),
    (NAMED, {"shape": [[2, 8], 3]}, "weaker"),
    (NAMED, {"shape": [{"min": 2, "max": 8, "name": "unk__0"}, 3]}, "weaker"),
    (NAMED, {"shape": [{"min": 2, "max": 8, "name": "2*N"}, 3]}, "wrong_shape"),
    (NAMED, {"shape": [{"min": 0, "name": "N"}, 3]}, "weaker"),
    (MOVED, {"shape": [6], "bytes": "0A0B"}, "agrees"),
    (MOVED, {"shape": [6], "bytes": "0b0a"}, "wrong_bytes"),
    (MOVED, {"shape": [6]}, "weaker"),
    (DIVIDED, HALF, "agrees"),
    (DIVIDED, {**HALF, "conditions": [EVEN]}, "agrees"),
    (DIVIDED, {**HALF, "conditions": [{**EVEN, "left": "4", "right": "6*b"}]}, "agrees"),
    (DIVIDED, {**HALF, "conditions": []}, "wrong_shape"),
    (DIVIDED, {**HALF, "conditions": [], "conditions_complete": False}, "weaker"),
    (DIVIDED, {**HALF, "conditions": [EVEN], "conditions_complete": False}, "weaker"),
    (DIVIDED, {**HALF, "conditions": [{**EVEN, "left": "4"}]}, "wrong_shape"),
    (DIVIDED, {**HALF, "conditions": [EVEN, {"kind": "range", "left": "b", "min": 1}]}, "wrong_shape"),
    (DIVIDED, {**HALF, "conditions": [{**EVEN, "right": "h"}]}, "wrong_shape"),
    (DIVIDED, {**HALF, "conditions": ["2 divides b"]}, "garbage"),
    (DIVIDED, {**HALF, "conditions": [{**EVEN, "left": "b+1"}]}, "garbage"),
    (OPEN, {"shape": [{"min": 0, "max": None, "name": "3*b/2"}, 4], "conditions": [EVEN]}, "wrong_shape"),
    # A name may be any of those that the query makes equal, or an additional one that no instance contradicts.
    (EQUAL, {"shape": [{"min": 5, "max": 8, "name": "N"}]}, "agrees"),
    (UNNAMED, {"shape": [{"min": 0, "name": "N"}, 3]}, "tighter"),
    (UNNAMED, {"shape": [{"min": 0, "name": "2*N"}, 3]}, "wrong_shape"),
    # The worst dim counts, and an excluded instance.
    (TWO, {"shape": [[1, 8], [2, 7]]}, "wrong_shape"),
    (LONG, {"shape": [[129, 160]]}, "wrong_shape"),
    (LONG, {"shape": [[128, 159]]}, "wrong_shape"),
]


def test_judge_returns_the_expected_verdict_for_each_answer():
    for case, record, verdict in VERDICTS:
        assert judge(case, record).verdict == verdict, (case.id, record)
    assert judge(BOUNDED, {"shape": [[4, 6], 4]}).why == "dim 0 is 4..6, not 3..6: [2, 6] to [-1, 4] gives [3, 4]"


def test_answer_with_one_name_for_different_dims_is_wrong():
    known = {"data": [None, None], "shape": [0, 0], "special_zero": True}
    case = make_case("symbols/none", {"shape": [None, None]}, **known)
    new = {"min": 0, "max": None, "name": "z"}
    assert judge(case, {"shape": [new, {**new, "name": "y"}]}).verdict == "agrees"
    wrong = judge(case, {"shape": [new, new]})
    assert (wrong.verdict, wrong.why.partition(":")[0]) == ("wrong_shape", "dims [0, 1] are not all z")


def test_rejection_with_another_reason_is_reported():
    assert find_other_reason(REJECTED, {"error": {"reason": "OTHER"}}) == "OTHER"
    records: list[Json] = [REJECTION, {"error": {}}, {"shape": [6]}, {"oh": 1}]
    for record in records:
        assert find_other_reason(REJECTED, record) == ""


def test_correct_conformance_results_have_no_differences():
    assert {verdict for verdict in Verdict if not verdict.is_difference} == {"agrees", "tighter", "unsupported"}
    cases = list_cases(["core"])
    assert [case.id for case in cases if judge(case, case.right).verdict != "agrees"] == []
