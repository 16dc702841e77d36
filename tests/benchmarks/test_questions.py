import pytest
from benchmarks.questions import ALL_HOSTILE, MIXED, check_answers, make_questions

from tensor_reshape.client import infer_locally


@pytest.mark.parametrize("load", [MIXED, ALL_HOSTILE])
def test_wrong_benchmark_answers_raise_value_error(load: str):
    questions = make_questions(load, 30)
    answers = infer_locally(questions)

    check_answers(questions, answers)
    with pytest.raises(ValueError, match="in this process"):
        check_answers(questions, answers[::-1])


def test_benchmark_queries_are_distinct_and_reproducible():
    assert len({*map(str, make_questions(MIXED, 10_000))}) == 10_000
    assert make_questions(MIXED, 100) == make_questions(MIXED, 100)
