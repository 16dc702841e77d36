"""Results as JSON."""

import json
from typing import Any

from hypothesis import given

from dim_strategies import LAWFUL_REQUESTS
from hypothesis_profiles import examples
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.json_format import describe_answer, describe_dim
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import Question, ShapeRequest

Record = dict[str, Any]


def answer(data: list[AnyDim], target: list[AnyDim] | None, *, explain: bool = False) -> Record:
    question = Question(STATIC_RESHAPE, data, target, special_zero=True)
    return describe_answer(answer_question(ShapeRequest(question, explain)))


def test_json_dim_is_a_number_null_or_an_object():
    product = Dim(Interval(0, None), make_expression(4, [Symbol("a + b")]))
    assert list(map(describe_dim, [4, None, Dim(Interval(2, 8)), name_dim("N"), product])) == [
        4,
        None,
        {"min": 2, "max": 8},
        {"min": 0, "max": None, "name": "N"},
        {"min": 0, "max": None, "name": "4*(a + b)"},
    ]


def test_json_result_has_the_requested_keys():
    assert answer([2, 3], [6]) == {"shape": [6]}
    assert answer([2, 3], None) == {"shape": None, "conditions_complete": False}
    copied, inferred = answer([name_dim("N"), 4], [0, -1], explain=True)["origins"]
    assert (set(copied), copied["kind"]) == ({"kind", "text", "data_index"}, "copied")
    assert (set(inferred), inferred["kind"]) == ({"kind", "text", "dividend", "divisor"}, "inferred")
    assert answer([name_dim("N"), 4], [name_dim("M"), 2])["conditions"] == [
        {"text": "2*N = M", "kind": "equal", "left": "2*N", "right": "M", "rule": 4, "item": "shape"}
    ]
    assert answer([None, 4], [0, -1])["conditions"] == [
        {"text": "data[0] >= 1", "kind": "range", "left": "data[0]", "min": 1, "rule": 3, "item": "shape[0]"}
    ]


@examples(100)
@given(LAWFUL_REQUESTS)
def test_dim_names_in_json_results_survive_a_round_trip(request: ShapeRequest):
    try:
        record = describe_answer(answer_question(request))
    except InvalidRequestError:
        return
    assert json.loads(json.dumps(record)) == record
    named = [dim["name"] for dim in record["shape"] or () if isinstance(dim, dict) and "name" in dim]
    assert [str(parse_dim(name)) for name in named] == named
