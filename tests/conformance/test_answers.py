"""Answers as implementations write them."""

from typing import Any

import pytest

from conformance_runs import write_shape, write_tensor
from tensor_reshape.conformance.answers import InvalidAnswerError, Rejection, ShapeAnswer, Unsupported, read_answer
from tensor_reshape.rules.dims import ANY, Dim, Interval, Symbol, make_expression, name_dim

PARTIAL: list[tuple[dict[str, Any], object]] = [
    ({}, None),
    ({"interval": {"min": 2, "max": 8}}, Dim(Interval(2, 8))),
    ({"interval": {"min": "2"}}, Dim(Interval(2, None))),
    ({"interval": {"max": 8}}, Dim(Interval(0, 8))),
    ({"interval": {"min": 2, "max": None}}, Dim(Interval(2, None))),
    ({"symbol": {"name": "N", "bounds": {"min": 2, "max": 8}}}, name_dim("N", 2, 8)),
    (
        {"expression": {"coefficient": 4, "factors": [{"name": "N"}, {"name": "N"}], "divisor": 3}},
        Dim(ANY, make_expression(4, [Symbol("N"), Symbol("N")], 3)),
    ),
]
EVEN = {"kind": "KIND_DIVIDES", "left": {"coefficient": 2}, "right": {"factors": [{"name": "b"}]}}
SCALAR: dict[str, Any] = {"answer": {"shape": {}}}
INVALID: list[dict[str, Any]] = [
    {},
    {"oh": 1},
    {"answer": 4},
    {"answer": [6]},
    {"answer": {"shape": [6]}},
    {"answer": {"shape": {"dims": 4}}},
    {"answer": {"shape": {"dims": "2,3"}}},
    {"answer": {"shape": {"dims": [True]}}},
    {"answer": {"shape": {"dims": [2.5]}}},
    {"answer": {"shape": {"dims": ["N"]}}},
    {"answer": {"shape": {"dims": [None]}}},
    {"answer": {"shape": {"dims": [1] * 5000}}},
    {"answer": {"shape": {"dims": [2], "partial": [{"index": 0}]}}},
    {"answer": {"shape": {"dims": [-1], "partial": [{"index": 0, "interval": {"min": 8, "max": 2}}]}}},
    {"answer": {"shape": {"dims": [-1], "partial": [{"index": 0, "symbol": {"name": ""}}]}}},
    {**SCALAR, "rejection": {}},
    {**SCALAR, "unsupported": "both"},
    {"rejection": None},
    {"output": {"dims": [1], "data": 1}},
    {"output": {"dims": [1], "data": "?"}},
    {"output": {"dims": [-1], "data": "AA=="}},
    {"output": {"dims": [1] * 5000, "data": "AA=="}},
]
INVALID_CONDITIONS: list[object] = [
    {},
    ["2 divides b"],
    [{**EVEN, "kind": "KIND_OTHER"}],
    [{**EVEN, "kind": 0}],
    [{"kind": "KIND_EQUAL", "left": {}}],
    [{**EVEN, "kind": "KIND_RANGE", "min": 1}],
    [{"kind": "KIND_RANGE", "left": {"factors": [{"name": "b"}]}}],
    [{**EVEN, "left": {"factors": [{"name": "b"}], "divisors": [{"name": "b"}]}}],
    [{**EVEN, "right": {"divisor": 7}}],
    [{**EVEN, "right": {"factors": [{"name": ""}]}}],
    [{**EVEN, "left": {"coefficient": -1}}],
    [{**EVEN, "left": {"divisor": 0}}],
    [{**EVEN, "left": {"factors": [{"name": "b"}], "divisor": 0}}],
    [{"kind": "KIND_RANGE", "left": {}, "min": -1}],
    [{"kind": "KIND_RANGE", "left": {}, "max": "x"}],
    [EVEN] * 1001,
]


def test_conformance_answer_has_the_dims_of_its_message():
    for entry, read in PARTIAL:
        record = {"answer": {"shape": {"dims": [4, -1, "5"], "partial": [{"index": 1, **entry}]}}}
        assert read_answer(record) == ShapeAnswer((4, read, 5), conditions_complete=False), entry  # type: ignore[arg-type] # a dim


def test_conformance_answer_may_have_numbers_that_no_dim_has():
    answer = read_answer({"answer": {"shape": {"dims": [2, -1, -(2**70), 2**63]}}})
    assert isinstance(answer, ShapeAnswer)
    assert answer.dims == (2, None, -(2**70), 2**63)


def test_conformance_answer_is_parsed_as_shape_output_rejection_or_unsupported():
    assert read_answer({"answer": {"more": 1}, "more": 1}) == ShapeAnswer(None, conditions_complete=False)
    assert read_answer({**SCALAR, "rejection": None, "unsupported": None}).dims == ()  # type: ignore[union-attr]
    output = {"output": write_tensor("DATA_TYPE_U8", [2], b"\x0a\x0b")}
    assert read_answer(output) == ShapeAnswer((2,), b"\x0a\x0b")
    for error, reason in (({"reason": "NO", "field": "x"}, "NO"), ({}, ""), ("no", ""), ({"reason": 1}, "1")):
        assert read_answer({"rejection": error}) == Rejection(reason)
    assert read_answer({"unsupported": "no data", "answer": None}) == Unsupported("no data")


@pytest.mark.parametrize("record", INVALID, ids=lambda record: repr(record)[:40])
def test_invalid_conformance_answer_records_are_rejected(record: dict[str, Any]):
    with pytest.raises(InvalidAnswerError):
        read_answer(record)


def _multiply(*names: str, **numbers: object) -> dict[str, Any]:
    return {"factors": [{"name": name} for name in names], **numbers}


CONDITIONS: list[tuple[dict[str, Any], str]] = [
    (EVEN, "2 divides b"),
    (
        {"kind": "KIND_EQUAL", "left": _multiply("M", "N", "N"), "right": _multiply("data[0]", coefficient=36)},
        "M*N^2 = 36*data[0]",
    ),
    (
        {"kind": "KIND_EQUAL", "left": _multiply("N"), "right": _multiply("K"), "unlessZero": _multiply("M")},
        "N = K unless M = 0",
    ),
    (
        {"kind": "KIND_RANGE", "left": _multiply("a", divisor=2, divisors=[{"name": "c"}]), "min": "1", "max": 3},
        "1 <= a/(2*c) <= 3",
    ),
    ({"kind": "KIND_RANGE", "left": _multiply("shape[1]"), "min": 1}, "shape[1] >= 1"),
]


def test_conditions_of_an_answer_have_their_usual_text():
    records, texts = [record for record, _ in CONDITIONS], [text for _, text in CONDITIONS]
    answer = read_answer(write_shape(2, conditions=records, conditionsComplete=True))
    assert isinstance(answer, ShapeAnswer)
    assert ([str(one) for one in answer.conditions or ()], answer.conditions_complete) == (texts, True)


def test_answer_without_conditions_differs_from_one_with_an_empty_list():
    rows: list[tuple[dict[str, Any], object]] = [
        ({}, None),
        ({"conditions": []}, ()),
        ({"conditionsComplete": True}, ()),
    ]
    for keys, conditions in rows:
        answer = read_answer(write_shape(2, **keys))
        assert isinstance(answer, ShapeAnswer)
        assert answer.conditions == conditions, keys


@pytest.mark.parametrize("conditions", INVALID_CONDITIONS, ids=range(len(INVALID_CONDITIONS)))
def test_malformed_conditions_are_rejected(conditions: object):
    with pytest.raises(InvalidAnswerError):
        read_answer(write_shape(2, conditions=conditions))
