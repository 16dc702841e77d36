"""Inference of random small queries, compared with all their instances."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from dense_questions import choose_dense
from tensor_reshape.rules.dims import AnyDim, Dim, find_name, format_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.questions import AnyQuestion, ShapeAnswer, ShapeRequest
from tests.oracles.instance_grids import FEW_AXES, build_grids, count_axes, find_loose
from verification.prove import STYLES, choose_question

COUNT = 200  # the queries of each style; with `--all`, so many times more
ALL = 5

DENSE = 900
SQUARE = 2


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
    is_open = question.data is None or question.target is None or None in question.target
    fault = fault or ("" if is_open or answer.conditions_complete else "not complete, though no item is unknown")
    # The API promises the tightest bounds unless the query has products, names in its expected shape, or many unknown
    # items. If there are many axes, or cubes of a name, the grid may have no instance at an end.
    shapes = (question.data, question.target, question.expected)
    is_named = any(isinstance(dim, Dim) and dim.expression is not None for dim in question.expected or ())
    is_exact = not any(map(has_product, shapes)) and not is_named and count_axes(question) < FEW_AXES
    names = [find_name(dim) for dim in (*(question.data or ()), *(question.target or ()))]
    has_cubes = any(name is not None and names.count(name) > SQUARE for name in names)
    if not fault and is_exact and not has_cubes and answer.dims is not None:
        fault = find_loose(grids, answer.dims)
    if not fault and is_exact and question.expected is None and question.data is not None:
        fault = next((f"{one} is needless" for grid in grids for one in grid.find_needless(answer.conditions)), "")
    return fault


def check(questions: Iterator[AnyQuestion], random: Random) -> None:
    for question in questions:
        if count_axes(question) <= FEW_AXES and (question.target is not None or question.expected is not None):
            fault = find_fault(ShapeRequest(question, explain=random.random() < 0.5))
            assert not fault, f"{describe(question)}: {fault}"


@pytest.mark.parametrize("style", STYLES)
def test_answers_agree_with_all_instances_of_random_queries(style: str, request: pytest.FixtureRequest):
    random, count = Random(style), COUNT * (ALL if request.config.getoption("--all") else 1)
    check((choose_question(random, STYLES[style]) for _ in range(count)), random)


@pytest.mark.parametrize("part", range(4))
def test_answers_agree_with_all_instances_of_dense_queries(part: int, request: pytest.FixtureRequest):
    random, count = Random(part), DENSE * (ALL if request.config.getoption("--all") else 1)
    check((choose_dense(random) for _ in range(count)), random)
