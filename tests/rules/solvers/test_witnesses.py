"""Witnesses of an answer: instances whose outputs have the ends of the dims."""

from random import Random

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, Interval
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest, is_known
from tests.oracles.shape_instances import ask, find_wrong_witness
from verification.prove.small_questions import STYLES, choose_question
from written_questions import write_question

ZERO = Dim(Interval(0, 0))

# operation, data, target with special_zero, expected; the data, the items and the output of each witness
WITNESSES: dict[tuple[Operation, str | None, str | None, str | None], list[tuple[tuple[AnyDim, ...], ...]]] = {
    (RESHAPE, "2..4 6", "-1 4", None): [((2, 6), (-1, 4), (3, 4)), ((4, 6), (-1, 4), (6, 4))],
    (STATIC_RESHAPE, "N 4", "0 -1", None): [((1, 4), (0, -1), (1, 4))],
    (RESHAPE, "b:1..9 6", "4 -1", None): [((2, 6), (4, -1), (4, 3)), ((8, 6), (4, -1), (4, 12))],
    (RESHAPE, "0..2", "0..2", None): [((0,), (ZERO,), (0,)), ((2,), (2,), (2,))],
    (RESHAPE, "2 0", "? 5", None): [((2, 0), (-1, 5), (0, 5))],
    (RESHAPE, None, "? 3..4", None): [((0, 3), (0, 3), (0, 3)), ((0, 4), (0, 4), (0, 4))],
    (RESHAPE, "N 4", None, "8 1..2"): [((2, 4), (8, 1), (8, 1)), ((4, 4), (8, 2), (8, 2))],
    (RESHAPE, "N:1..8 4", "-1", "2*N*K:8..8"): [],
    (RESHAPE, "M 2*K/2 0..2", "-1 2*M/2", "1 N"): [((1, 1, 1), (-1, 1), (1, 1))],
    (RESHAPE, "2 3", "6", None): [],
}


def explain(question: tuple[Operation, str | None, str | None, str | None]) -> ShapeAnswer:
    return answer_question(ShapeRequest(write_question(*question[:3], True, question[3]), explain=True))


def test_witnesses_have_the_ends_of_each_dim():
    found = {question: list(map(tuple, explain(question).witnesses)) for question in WITNESSES}
    assert found == WITNESSES


def test_answer_without_explain_has_no_witnesses():
    question = write_question(RESHAPE, "2..4 6", "-1 4", True)
    assert answer_question(ShapeRequest(question)).witnesses == ()


def test_hard_query_has_no_witnesses():
    assert explain((RESHAPE, " ".join(["0..9"] * 40), " ".join(["0..9"] * 40), None)).witnesses == ()


@pytest.mark.parametrize("style", sorted(STYLES.keys() - {"expressions"}))  # the bounds of an expression may be wide
def test_random_answers_have_a_witness_for_each_end(style: str):
    random, incomplete, judged = Random(style), 0, 0
    for _ in range(100):
        request = ShapeRequest(choose_question(random, STYLES[style]), explain=True)
        if is_known(request.question) or ask(request.question) is None:
            continue
        problem, missing = find_wrong_witness(request, answer_question(request))
        assert problem == ""
        incomplete += bool(missing)
        judged += 1
    assert judged > 10
    assert incomplete <= judged / 50
