"""The text of conditions, their evaluation, and the names of dims without a name."""

import pytest

from tensor_reshape.rules.conditions import Condition, ConditionKind, list_declared, name_position
from tensor_reshape.rules.dims import ANY, Dim, Expression, Interval, Symbol, make_expression, name_dim

EQUAL, DIVIDES, RANGE = ConditionKind


def product(number: int, *names: str) -> Expression:
    return make_expression(number, [Symbol(name) for name in names])


N, M, TWELVE = product(1, "N"), product(1, "M"), product(12)
QUOTIENT = make_expression(1, [Symbol("N")], 2, [Symbol("M")])
HALF = make_expression(1, [Symbol("N")], 2, [Symbol("L")])

# condition, text; values of N and M that satisfy it, values that do not
CONDITIONS: list[tuple[Condition, str, list[tuple[int, int]], list[tuple[int, int]]]] = [
    (Condition(EQUAL, product(2, "N"), M), "2*N = M", [(2, 4), (0, 0)], [(2, 3)]),
    (Condition(EQUAL, product(1, "N", "N"), M), "N^2 = M", [(2, 4)], [(2, 2)]),
    (Condition(EQUAL, N, product(0)), "N = 0", [(0, 5)], [(1, 0)]),
    (Condition(EQUAL, N, TWELVE, unless_zero=M), "N = 12 unless M = 0", [(12, 1), (5, 0)], [(5, 1)]),
    (Condition(DIVIDES, product(2), N), "2 divides N", [(0, 0), (4, 0)], [(3, 0)]),
    (Condition(DIVIDES, N, product(12, "M")), "N divides 12*M", [(5, 5), (0, 0), (12, 7)], [(0, 1), (5, 1)]),
    (Condition(RANGE, N, min=1), "N >= 1", [(1, 0)], [(0, 0)]),
    (Condition(RANGE, N, max=4), "N <= 4", [(4, 0)], [(5, 0)]),
    (Condition(RANGE, QUOTIENT, min=2, max=3), "2 <= N/(2*M) <= 3", [(4, 1), (6, 1)], [(3, 1), (7, 1)]),
]


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row[1])
def test_condition_is_written_and_evaluated(
    row: tuple[Condition, str, list[tuple[int, int]], list[tuple[int, int]]],
):
    condition, text, accepted, rejected = row
    assert str(condition) == text
    for values, holds in ((accepted, True), (rejected, False)):
        assert [condition.holds({"N": n, "M": m}) for n, m in values] == [holds] * len(values)


def test_position_is_written_without_quotes():
    condition = Condition(EQUAL, product(3, "data[0]", "my dim"), product(1, "expected_shape[0]", "shape[2]'"))
    assert str(condition) == "3*data[0]*'my dim' = expected_shape[0]*shape[2]'"


def test_position_differs_from_every_name():
    assert name_position("data", 0, {"N"}) == "data[0]"
    assert name_position("data", 0, {"data[0]", "data[0]'"}) == "data[0]''"


def test_declared_bounds_are_listed_by_name_and_position():
    declared = list_declared(
        [name_dim("N", 1, 9), None, 4], [name_dim("N", 2), None, -1, name_dim("K")], [name_dim("M", 3), Dim(ANY, HALF)]
    )
    assert declared == {
        "N": Interval(2, 9),
        "K": ANY,
        "M": Interval(3, None),
        "L": Interval(1, None),  # a divisor is never 0
        "data[1]": ANY,
    }


def test_condition_lists_its_dims():
    condition = Condition(EQUAL, N, TWELVE, unless_zero=M)
    assert condition.symbols == {"N", "M"}
    assert condition.unless_empty
