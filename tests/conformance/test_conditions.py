"""Instances that contradict the conditions of an answer."""

from tensor_reshape.client import ShapeQuery
from tensor_reshape.client.queries import read_query
from tensor_reshape.conformance.conditions import find_admitted, find_excluded, list_values
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import Symbol, make_expression

QUERY = ShapeQuery(data_shape=("b", 6), shape=(4, -1), special_zero=False)
CANDIDATES = list_values(read_query(QUERY).request.question)


def divide(number: int) -> Condition:
    return Condition(ConditionKind.DIVIDES, make_expression(number, []), make_expression(1, [Symbol("b")]))


def test_excluded_instance_is_found():
    assert find_excluded(CANDIDATES, [divide(2)]) == ""
    text = find_excluded(CANDIDATES, [divide(4)])
    assert text == "the condition 4 divides b excludes b = 2, which is accepted"


def test_admitted_values_that_are_rejected_are_found():
    right = [divide(2)]
    assert find_admitted(CANDIDATES, right, right, is_complete=True) == ""
    assert find_admitted(CANDIDATES, (), right, is_complete=False) == "the conditions admit b = 1, which is rejected"
    assert find_admitted(CANDIDATES, (), (), is_complete=False) == ""
