import pytest
from benchmarks.questions import ALL_HOSTILE, HOSTILE, MIXED, PARTS, check_answers, make_questions

from tensor_reshape.client import infer_locally


@pytest.mark.parametrize("load", [MIXED, *PARTS])
def test_questions_of_models_are_distinct_and_the_same_in_every_run(load: str):
    questions = make_questions(load, 100)

    assert len(set(questions)) == 100
    assert make_questions(load, 100) == questions


@pytest.mark.parametrize("load", [MIXED, ALL_HOSTILE, *HOSTILE])
def test_this_process_gives_right_answers(load: str):
    questions = make_questions(load, 30)

    check_answers(questions, infer_locally([question.query for question in questions]))


def test_another_questions_answer_is_found():
    questions = make_questions(MIXED, 30)
    answers = infer_locally([question.query for question in questions])

    with pytest.raises(ValueError, match="in this process"):
        check_answers(questions, answers[::-1])
