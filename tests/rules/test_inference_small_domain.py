"""Inference of all small queries, compared with tables of their instances."""

import pytest

from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer
from tensor_reshape.rules.operations import SHAPE_OPERATIONS
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer
from tests.oracles.small_domain import DIMS, ITEMS, KNOWN_DIMS, KNOWN_ITEMS, Place, build_table, list_places

STEP = 29  # without `--all`, one of so many queries is asked. A prime reaches all kinds of queries


def ask(question: AnyQuestion) -> ShapeAnswer | None:
    try:
        return infer(question)
    except InvalidRequestError:
        return None


@pytest.mark.parametrize("special_zero", [False, True])
@pytest.mark.parametrize("copies_cancel", [False, True])
@pytest.mark.parametrize(("rank", "count"), [(rank, count) for rank in range(4) for count in range(4)])
def test_small_queries_agree_with_all_their_instances(
    rank: int, count: int, copies_cancel: bool, special_zero: bool, request: pytest.FixtureRequest
):
    table = build_table(rank, count, special_zero=special_zero, copies_cancel=copies_cancel)
    operations = [one for one in SHAPE_OPERATIONS.values() if one.copies_cancel == copies_cancel]
    places: list[Place] = list_places(rank, count)[:: 1 if request.config.getoption("--all") else STEP]
    for number, place in enumerate(places):
        data = [None if index == KNOWN_DIMS else DIMS[index] for index in place[:rank]]
        target = [None if index == KNOWN_ITEMS else ITEMS[index] for index in place[rank:]]
        question: AnyQuestion = Question(operations[number % len(operations)], data, target, special_zero)
        fault = table.find_fault(place, ask(question))
        assert not fault, f"{question}: {fault}"
