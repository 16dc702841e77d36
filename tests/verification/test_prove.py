"""Parts of `scripts/verify prove` other than small queries: queries of models, and the comparison with OpenVINO."""

import pytest

from tensor_reshape.rules.dims import ANY, Interval
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question
from verification.prove.differences import SAME, TIGHTER, UNEXPLAINED, UNSOUND, Answer, Comparison, infer_ours, judge
from verification.prove.models import KINDS, check_models


@pytest.mark.parametrize("kind", KINDS)
def test_inferred_shapes_for_model_queries_are_tight(kind: str):
    problems = list(check_models(kind, "test", varied=1))
    assert len(problems) == 778
    assert [one.problem for one in problems if one.problem] == []


def test_difference_from_openvino_is_classified():
    six, two = Question(RESHAPE, [6], [-1], special_zero=False), Interval(2, 2)
    copied = Question(RESHAPE, [2, 3], [0, 2], special_zero=True)
    partial = Question(RESHAPE, [None, 6], [-1, 4], special_zero=False)
    rankless = Question(RESHAPE, None, [-1], special_zero=False)
    rows: dict[str, tuple[AnyQuestion, Answer, list[tuple[int, ...]], str]] = {
        "the same": (six, Answer((Interval(6, 6),)), [(6,)], SAME),
        "less is known": (six, Answer((ANY,)), [(6,)], TIGHTER),
        "no rank is known": (six, Answer(None), [(6,)], TIGHTER),
        "ours lacks an output": (six, Answer((Interval(6, 6),)), [(7,)], UNSOUND),
        "another number": (six, Answer((two,)), [(6,)], UNEXPLAINED),
        "they reject": (six, Answer(None, "no"), [(6,)], UNEXPLAINED),
        "we reject": (copied, Answer((two, two)), [], "number of elements unchecked next to a copy"),
        "an instance contradicts us": (copied, Answer((two, two)), [(2, 2)], UNSOUND),
        "theirs lacks an output": (partial, Answer((Interval(1, None), Interval(4, 4))), [(0, 4)], "unsound interval"),
        "at least 1": (rankless, Answer((Interval(1, None),)), [(0,), (1,)], "-1 of unknown rank at least 1"),
    }
    assert {
        name: judge(Comparison(question, infer_ours(question), theirs, outputs))
        for name, (question, theirs, outputs, _) in rows.items()
    } == {name: verdict for name, (*_, verdict) in rows.items()}
