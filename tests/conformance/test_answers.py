"""Answers as implementations write them."""

from typing import Any

import pytest

from tensor_reshape.conformance.answers import InvalidAnswerError, Rejection, ShapeAnswer, Unsupported, read_answer
from tensor_reshape.rules.dims import Dim, Interval, name_dim

DIMS: list[tuple[object, object]] = [
    (4, 4),
    (-1, -1),
    (2**70, 2**70),
    (None, None),
    ([2, 8], Dim(Interval(2, 8))),
    ({"min": 2}, Dim(Interval(2, None))),
    ({"max": 8}, Dim(Interval(0, 8))),
    ({"min": 2, "max": None, "name": None}, Dim(Interval(2, None))),
    ({"min": 2, "max": 8, "name": "N"}, name_dim("N", 2, 8)),
]
INVALID: list[dict[str, Any]] = [
    {},
    {"shape": 4},
    {"shape": "2,3"},
    {"shape": [True]},
    {"shape": [2.0]},
    {"shape": ["6"]},
    {"shape": ["N"]},
    {"shape": [1] * 5000},
    {"shape": [2], "error": {}},
    {"shape": [2], "unsupported": "both"},
    {"error": None},
    {"shape": [[1]]},
    {"shape": [[8, 2]]},
    {"shape": [{"low": 1}]},
    {"shape": [{"min": 1, "max": 2, "name": "("}]},
    {"shape": [], "bytes": [1]},
]


def test_conformance_answer_accepts_several_dim_notations():
    for dim, read in DIMS:
        assert read_answer({"shape": [dim]}) == ShapeAnswer((read,)), dim  # type: ignore[arg-type] # a dim


def test_conformance_answer_is_parsed_as_shape_rejection_or_unsupported():
    assert read_answer({"shape": None, "more": 1}) == ShapeAnswer(None)
    assert read_answer({"shape": [2], "error": None, "unsupported": None}) == ShapeAnswer((2,))
    assert read_answer({"shape": [2], "bytes": "0a"}) == ShapeAnswer((2,), "0a")
    for error, reason in (({"reason": "NO", "field": "x"}, "NO"), ({}, ""), ("no", ""), ({"reason": 1}, "1")):
        assert read_answer({"error": error}) == Rejection(reason)
    assert read_answer({"unsupported": "no data", "shape": None}) == Unsupported("no data")


@pytest.mark.parametrize("record", INVALID, ids=lambda record: repr(record)[:40])
def test_invalid_conformance_answer_records_are_rejected(record: dict[str, Any]):
    with pytest.raises(InvalidAnswerError):
        read_answer(record)
