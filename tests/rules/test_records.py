"""Answers as JSON has them."""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from dim_strategies import LAWFUL_REQUESTS
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest
from tensor_reshape.rules.records import describe_answer, describe_dim

Record = dict[str, Any]


def answer(
    data: list[AnyDim], target: list[AnyDim] | None, *, explain: bool = False, strides: list[int] | None = None
) -> Record:
    question = Question(STATIC_RESHAPE, data, target, special_zero=True)
    return describe_answer(answer_question(ShapeRequest(question, explain, strides)))


# dim, its JSON
DIMS: dict[str, tuple[AnyDim, object]] = {
    "a number": (4, 4),
    "nothing": (None, None),
    "bounds": (Dim(Interval(2, 8)), {"min": 2, "max": 8}),
    "a name": (name_dim("N"), {"min": 0, "max": None, "name": "N"}),
    "a product": (
        Dim(Interval(0, None), make_expression(4, [Symbol("a + b")])),
        {"min": 0, "max": None, "name": "4*(a + b)"},
    ),
}


@pytest.mark.parametrize(("dim", "record"), DIMS.values(), ids=DIMS.keys())
def test_a_dim_is_described(dim: AnyDim, record: object):
    assert describe_dim(dim) == record


def test_an_answer_has_no_key_that_was_not_asked_for():
    assert answer([2, 3], [6]) == {"shape": [6]}


def test_an_unknown_rank_is_null():
    assert answer([2, 3], None) == {"shape": None}


def test_an_explanation_says_of_each_dim_what_goes_with_its_kind():
    copied, inferred = answer([name_dim("N"), 4], [0, -1], explain=True)["origins"]
    assert (set(copied), copied["kind"]) == ({"kind", "text", "data_index"}, "copied")
    assert (set(inferred), inferred["kind"]) == ({"kind", "text", "dividend", "divisor"}, "inferred")


def test_a_view_has_its_strides():
    assert answer([2, 3], [6], strides=[3, 1])["view"] == {"possibility": "possible", "strides": [1]}


def test_equalities_are_written_as_people_write_expressions():
    record = answer([name_dim("N"), 4], [name_dim("M"), 2])
    assert record["equalities"] == [{"left": "2*N", "right": "M", "unless_empty": False}]


@settings(max_examples=100, deadline=None)
@given(LAWFUL_REQUESTS)
def test_a_record_is_json_whose_names_are_read_back(request: ShapeRequest):
    try:
        record = describe_answer(answer_question(request))
    except InvalidRequestError:
        return
    assert json.loads(json.dumps(record)) == record
    named = [dim["name"] for dim in record["shape"] or () if isinstance(dim, dict) and "name" in dim]
    assert [str(parse_dim(name)) for name in named] == named
