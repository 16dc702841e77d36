"""What answers are, held against the right ones."""

import pytest

from conformance_runs import Json, make_question
from tensor_reshape.conformance.cases import list_questions
from tensor_reshape.conformance.verdicts import Verdict, find_other_reason, judge

REFUSAL: Json = {"error": {"reason": "NOT_DIVISIBLE"}}
NAMED = make_question(
    "symbols/named", {"shape": [{"min": 2, "max": 8, "name": "N"}, 3]}, data=["N:2..8", 3], shape=["N", 3]
)
BOUNDED = make_question("partial/bounded", {"shape": [{"min": 3, "max": 6}, 4]}, data=[[2, 4], 6], shape=[-1, 4])
HALVED = make_question(
    "partial/wide", {"shape": [{"min": 2, "max": 9}]}, data=[[2, 8]], shape=[-1]
)  # wider than it may
UNRANKED = make_question("partial/unranked", {"shape": None}, data=[6], shape=None)
KNOWN = make_question()
REFUSED = make_question("inferred/five", REFUSAL, shape=[5, -1])
VIEWED = make_question(
    "layouts/view", {"shape": [6, 1], "view": {"possibility": "possible", "strides": [1, 1]}}, shape=[6, 1]
)
MOVED = make_question("layouts/moved", {"shape": [6], "bytes": "0a0b"})

VERDICTS = [
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
    (KNOWN, REFUSAL, "spurious_error"),
    (KNOWN, {"unsupported": "no"}, "unsupported"),
    (REFUSED, {"unsupported": "no"}, "unsupported"),
    (REFUSED, REFUSAL, "agrees"),
    (REFUSED, {"error": {"reason": "OTHER"}}, "agrees"),
    (REFUSED, {"shape": [5, 1]}, "missing_error"),
    (REFUSED, {"shape": None}, "missing_error"),
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
    (VIEWED, {"shape": [6, 1]}, "agrees"),
    (VIEWED, {"shape": [6, 1], "view": {"possibility": "possible", "strides": [1, 7]}}, "agrees"),
    (VIEWED, {"shape": [6, 1], "view": {"possibility": "possible", "strides": [2, 1]}}, "wrong_shape"),
    (VIEWED, {"shape": [6, 1], "view": {"possibility": "possible", "strides": [1]}}, "wrong_shape"),
    (VIEWED, {"shape": [6, 1], "view": {"possibility": "unknown"}}, "weaker"),
    (VIEWED, {"shape": [6, 1], "view": {"possibility": "impossible"}}, "wrong_shape"),
    (MOVED, {"shape": [6], "bytes": "0A0B"}, "agrees"),
    (MOVED, {"shape": [6], "bytes": "0b0a"}, "wrong_bytes"),
    (MOVED, {"shape": [6]}, "weaker"),
]


@pytest.mark.parametrize(("question", "record", "verdict"), VERDICTS, ids=repr)
def test_an_answer_is_one_of_these(question: object, record: Json, verdict: str):
    assert judge(question, record).verdict == verdict  # type: ignore[arg-type] # a question


def test_names_that_are_equal_by_the_question_are_both_right():
    question = make_question(
        "symbols/two", {"shape": [{"min": 5, "max": 8, "name": "M"}]}, data=["N:2..8"], shape=["M:5..20"]
    )
    assert judge(question, {"shape": [{"min": 5, "max": 8, "name": "N"}]}).verdict is Verdict.AGREES


def test_a_name_where_there_is_none_is_tighter_if_no_instance_contradicts_it():
    question = make_question("symbols/none", {"shape": [None, 3]}, data=["N", 3], shape=[-1, 3])
    assert judge(question, {"shape": [{"min": 0, "name": "N"}, 3]}).verdict is Verdict.TIGHTER
    assert judge(question, {"shape": [{"min": 0, "name": "2*N"}, 3]}).verdict is Verdict.WRONG_SHAPE


def test_two_dims_of_a_name_that_is_new_are_wrong_where_an_instance_has_them_differ():
    question = make_question(
        "symbols/none", {"shape": [None, None]}, data=[None, None], shape=[0, 0], special_zero=True
    )
    new = {"min": 0, "max": None, "name": "z"}
    assert judge(question, {"shape": [new, {**new, "name": "y"}]}).verdict == "agrees"
    wrong = judge(question, {"shape": [new, new]})
    assert (wrong.verdict, wrong.why.partition(":")[0]) == ("wrong_shape", "dims [0, 1] are not all z")


@pytest.mark.parametrize("bounds", [[129, 160], [128, 159]])
def test_an_answer_that_leaves_out_one_instance_of_an_unbounded_length_is_wrong(bounds: list[int]):
    question = make_question("partial/length", {"shape": [[128, 160]]}, data=[2, 2, 8, [4, 5]], shape=[[0, None]])
    assert judge(question, {"shape": [bounds]}).verdict == "wrong_shape"


def test_the_worst_of_an_answer_counts():
    question = make_question(
        "partial/two",
        {"shape": [{"min": 2, "max": 8}, {"min": 2, "max": 8}]},
        data=[[2, 8], [2, 8]],
        shape=[0, 0],
        special_zero=True,
    )
    assert judge(question, {"shape": [[1, 8], [2, 7]]}).verdict is Verdict.WRONG_SHAPE


def test_what_is_wrong_is_shown_by_an_instance():
    assert judge(BOUNDED, {"shape": [[4, 6], 4]}).why == ("dim 0 is 4..6, not 3..6: [2, 6] to [-1, 4] gives [3, 4]")


@pytest.mark.parametrize("possibility", ["possible", "impossible", "so"])
def test_a_view_of_which_nothing_holds_for_all_instances_is_none_of_these(possibility: str):
    right = {"shape": [{"min": 0, "max": None, "name": "4*N"}], "view": {"possibility": "unknown"}}
    question = make_question("layouts/open", right, data=["N", 4], shape=[-1], strides=[8, 1])
    assert judge(question, right | {"view": {"possibility": possibility}}).verdict is Verdict.WRONG_SHAPE


def test_a_view_that_all_instances_have_is_tighter_than_none():
    right = {"shape": [None], "view": {"possibility": "unknown"}}
    question = make_question("layouts/open", right, data=[None, 4], shape=[-1], strides=[4, 1])
    assert judge(question, right | {"view": {"possibility": "possible", "strides": [1]}}).verdict is Verdict.TIGHTER


def test_another_reason_is_told():
    assert find_other_reason(REFUSED, {"error": {"reason": "OTHER"}}) == "OTHER"
    records: list[Json] = [REFUSAL, {"error": {}}, {"shape": [6]}, {"oh": 1}]
    for record in records:
        assert find_other_reason(REFUSED, record) == ""


def test_verdicts_that_are_no_differences_are_these():
    assert {verdict for verdict in Verdict if not verdict.is_difference} == {"agrees", "tighter", "unsupported"}


def test_the_right_answers_of_the_kit_agree_with_themselves():
    questions = list_questions(["core"])
    assert [question.id for question in questions if judge(question, question.right).verdict != "agrees"] == []
