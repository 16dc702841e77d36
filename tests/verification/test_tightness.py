"""How often an answer is the hull of its instances: the search for instances, and the questions of models."""

from random import Random

import pytest

from tensor_reshape.rules.dims import AnyDim, Interval, make_dim, name_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question
from tests.oracles.shape_instances import find_accepted, find_ends
from verification.prove.small_questions import STYLES, choose_question
from verification.tightness.hulls import Verdict, judge
from verification.tightness.model_questions import KINDS
from verification.tightness.runs import join_tallies, list_tasks, run_task
from verification.tightness.systems import list_readings
from verification.tightness.tables import join_models

HUGE = make_dim(Interval(2, 2**31))


def ask(data: list[AnyDim], target: list[AnyDim]) -> AnyQuestion:
    """Returns a question."""
    return Question(operation=STATIC_RESHAPE, data=data, target=target, special_zero=False)


@pytest.mark.parametrize("style", STYLES)
def test_an_end_is_reached_just_where_brute_force_reaches_it(style: str):
    random, judged = Random(style), 0
    for _ in range(150):
        question = choose_question(random, STYLES[style])
        found = find_accepted(question, random, budget=300)
        if not found.complete or not found.accepted:
            continue
        hull = find_ends(found)

        assert judge(question, [make_dim(bounds) for bounds in hull]).verdict is Verdict.TIGHT, question
        for index, (low, high) in enumerate(hull):
            wider = [make_dim(bounds) for bounds in hull]
            wider[index] = make_dim(Interval(low, None if high is None else high + 1))
            verdict = judge(question, wider).verdict
            assert verdict is (Verdict.TIGHT if high is None else Verdict.WIDE), (question, index)
        judged += 1
    assert judged or style == "unknown rank"  # of which brute force never tries all


def test_an_answer_to_huge_dims_is_tight_where_an_instance_is_found():
    question = ask([HUGE, HUGE, 7], [HUGE, 49, -1])

    assert judge(question, [HUGE, 49, make_dim(Interval(1, 2**31 * 2**31 // 14))]).verdict is not Verdict.UNDECIDED


def test_what_no_instance_reaches_is_wide():
    judgement = judge(ask([make_dim(Interval(2, 4)), 6], [-1, 4]), [make_dim(Interval(3, 7)), 4])

    assert judgement.verdict is Verdict.WIDE
    assert judgement.ends == ("dim 0: 7 is wide",)


def test_what_takes_too_many_tries_is_undecided():
    primes = [make_dim(Interval(2**30, 2**31)) for _ in range(4)]
    question = ask(primes, [2**31 - 1, *primes[1:], -1])

    assert judge(question, [2**31 - 1, *primes[1:], 2], tries=3).verdict is Verdict.UNDECIDED


def test_each_reading_of_an_unknown_item_is_tried():
    question = ask([name_dim("N"), 4], [None, None])._replace(operation=RESHAPE, special_zero=True)

    instructions = {tuple(reading.instructions) for reading in list_readings(question)}

    assert len(instructions) == 8  # a length, a copy or the -1, but no two of the last


def test_answers_to_questions_of_models_are_tight():
    # The questions are committed, and their variants follow from the seed: every machine asks the same.
    tasks = [task for task in list_tasks("test", 0, 1) if not task.is_hostile]

    tally = join_models(join_tallies(map(run_task, tasks)))

    assert {task.kind for task in tasks} == set(KINDS)
    assert tally.least_share >= 0.999, tally.verdicts
