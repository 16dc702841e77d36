"""Conditions of answers: how they are read, and the instances that contradict them."""

import pytest

from tensor_reshape.client import ShapeQuery, infer_locally
from tensor_reshape.client.queries import read_query
from tensor_reshape.conformance.conditions import (
    InvalidConditionError,
    describe_conditions,
    find_admitted,
    find_excluded,
    list_values,
    read_conditions,
)
from tensor_reshape.rules.json_format import Json

QUERY = ShapeQuery(data_shape=("b", 6), shape=(4, -1), special_zero=False)
CANDIDATES = list_values(read_query(QUERY).request.question)
EVEN: Json = {"kind": "divides", "left": "2", "right": "b"}


def test_condition_in_json_has_its_usual_text():
    rows: list[tuple[Json, str]] = [
        ({"kind": "equal", "left": "M*N^2", "right": "36*data[0]"}, "M*N^2 = 36*data[0]"),
        ({"kind": "equal", "left": "N", "right": "K", "unless_zero": "M"}, "N = K unless M = 0"),
        ({"kind": "range", "left": "a*b/(2*c)", "min": 1, "max": 3}, "1 <= a*b/(2*c) <= 3"),
        ({"kind": "range", "left": "shape[1]", "min": 1}, "shape[1] >= 1"),
        (EVEN, "2 divides b"),
    ]
    for record, text in rows:
        assert [str(condition) for condition in read_conditions([record])] == [text]


@pytest.mark.parametrize(
    "value",
    [
        {},
        ["b = 1"],
        [{"kind": "other", "left": "b"}],
        [{**EVEN, "right": ""}],
        [{**EVEN, "right": "b+1"}],
        [{"kind": "equal", "left": "b"}],
        [{"kind": "range", "left": "b/0", "min": 1}],
        [{"kind": "range", "left": "b", "min": -1}],
        [{"kind": "range", "left": "b", "max": "3"}],
        [EVEN] * 1001,
    ],
    ids=range(10),
)
def test_malformed_conditions_are_rejected(value: object):
    with pytest.raises(InvalidConditionError):
        read_conditions(value)


def test_own_conditions_in_json_are_read_again():
    (answer,) = infer_locally([QUERY])
    described = describe_conditions(answer.to_json()["conditions"])  # type: ignore[union-attr] # not an error
    assert described == [EVEN]


def test_excluded_instance_is_found():
    assert find_excluded(CANDIDATES, read_conditions([EVEN])) == ""
    text = find_excluded(CANDIDATES, read_conditions([{**EVEN, "left": "4"}]))
    assert text == "the condition 4 divides b excludes b = 2, which is accepted"


def test_admitted_values_that_are_rejected_are_found():
    right = read_conditions([EVEN])
    assert find_admitted(CANDIDATES, right, right, is_complete=True) == ""
    assert find_admitted(CANDIDATES, (), right, is_complete=False) == "the conditions admit b = 1, which is rejected"
    assert find_admitted(CANDIDATES, (), (), is_complete=False) == ""
