"""Inference of random small queries, compared with all their instances."""

from collections.abc import Sequence
from random import Random

import pytest

from tensor_reshape.rules.dims import AnyDim, Dim, format_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer, ShapeRequest
from tests.oracles.instance_grids import FEW_AXES, build_grids, count_axes, find_loose
from verification.prove import STYLES, choose_question

COUNT = 600  # the queries of each style; with `--all`, so many times more
ALL = 5


def ask(request: ShapeRequest) -> ShapeAnswer | None:
    try:
        return answer_question(request)
    except InvalidRequestError:
        return None


def describe(question: AnyQuestion) -> str:
    shapes = (question.data, question.target, question.expected)
    bounds = [dim.bounds for shape in shapes for dim in shape or () if isinstance(dim, Dim) and dim.expression]
    return f"{question.operation} {' '.join(map(format_dims, shapes))} {question.special_zero} {bounds}"


def has_product(dims: Sequence[AnyDim] | None) -> bool:
    return any(isinstance(dim, Dim) and dim.is_product for dim in dims or ())


def find_fault(request: ShapeRequest) -> str:
    """Returns what is wrong with the answer to a query; empty if nothing is wrong."""
    question = request.question
    answer, grids = ask(request), build_grids(question)
    is_possible = any(grid.is_accepted.any() for grid in grids)
    if answer is None:
        return "rejected" if is_possible else ""
    fault = next(filter(None, (grid.find_fault(answer) for grid in grids)), "")
    # The API promises the tightest bounds unless the query has products, names in its expected shape, or many unknown
    # items. If there are many axes, the grid may have no instance at an end.
    shapes = (question.data, question.target, question.expected)
    is_named = any(isinstance(dim, Dim) and dim.expression is not None for dim in question.expected or ())
    is_exact = not any(map(has_product, shapes)) and not is_named and count_axes(question) < FEW_AXES
    if not fault and is_exact and answer.dims is not None:
        fault = find_loose(grids, answer.dims)
    if not fault and is_exact and question.expected is None and question.data is not None:
        fault = next((f"{one} is needless" for grid in grids for one in grid.find_needless(answer.conditions)), "")
    return fault


@pytest.mark.parametrize("style", STYLES)
def test_answers_agree_with_all_instances_of_random_queries(style: str, request: pytest.FixtureRequest):
    random = Random(style)
    for _ in range(COUNT * (ALL if request.config.getoption("--all") else 1)):
        question = choose_question(random, STYLES[style])
        if count_axes(question) <= FEW_AXES and (question.target is not None or question.expected is not None):
            fault = find_fault(ShapeRequest(question, explain=random.random() < 0.5))
            assert not fault, f"{describe(question)}: {fault}"
