"""The search for instances that contradict an answer."""

from collections.abc import Sequence
from itertools import islice

import pytest

from tensor_reshape.client import ShapeQuery
from tensor_reshape.client.queries import DimLike, read_query
from tensor_reshape.conformance.instances import (
    find_outside,
    list_accepted,
    list_candidates,
    list_instances,
    list_names,
)
from tensor_reshape.rules.dims import Interval
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.questions import AnyQuestion


def read(
    data: Sequence[DimLike] | None, shape: Sequence[DimLike] | None, expected: Sequence[DimLike] | None = None
) -> AnyQuestion:
    query = ShapeQuery(data_shape=data, shape=shape, special_zero=True, operation="reshape", expected_shape=expected)
    return read_query(query).request.question


FOUND: list[tuple[AnyQuestion, int, Interval, tuple[int, ...] | None]] = [
    (read([(2, 4), 6], [-1, 4]), 0, Interval(3, 3), (3, 4)),
    (read([(2, 4), 6], [-1, 4]), 0, Interval(6, None), (6, 4)),
    (read([None, 3], [6, -1]), 1, Interval(10**6, None), (6, 10**6)),
    (read([1, (1, 3), 3, (1, 6)], [0, -1, 3]), 1, Interval(18, 18), (1, 18, 3)),
    (read(["N", 4], ["M", 2]), 0, Interval(10**6, None), (10**6, 2)),
    (read(None, [3, -1, 0, 2]), 2, Interval(10**6, None), None),
    (read([6], [None, 2]), 0, Interval(3, 3), (3, 2)),
    (read([4, 6], [None, 6]), 0, Interval(4, 4), (4, 6)),
    (read(["N:2..8"], [-1], expected=[(4, 6)]), 0, Interval(5, 5), (5,)),
    (read([6], None, expected=[None, 2]), 0, Interval(3, 3), (3, 2)),
    (read(["A*B", "A"], ["A*B", "A"]), 1, Interval(7, 7), None),
]


def test_instance_search_finds_an_existing_counterexample():
    for question, index, part, output in FOUND:
        found = find_outside(question, index, part)
        assert found is not None, question
        assert part.holds(found.output[index]), question
        assert output in {None, found.output}, question


def test_instance_search_finds_nothing_outside_a_tight_result():
    for part in (Interval(4, 5), Interval(7, None), Interval(0, 2)):  # 18 is not divisible by 4
        assert find_outside(read([(2, 4), 6], [-1, 4]), 0, part) is None, part
    names = [f"N{index}:2..1000" for index in range(12)]
    assert find_outside(read(names, [-1]), 0, Interval(2**61 - 1, 2**61 - 1)) is None  # a prime: the search is bounded


def test_listed_instances_assign_every_symbol_and_are_accepted():
    instances = list(islice(list_instances(read(["N:2..4", "M:1..2"], [-1])), 100))
    assert {(case.names["N"], case.names["M"]) for case in instances} == {(n, m) for n in (2, 3, 4) for m in (1, 2)}
    assert all(case.output == (case.names["N"] * case.names["M"],) for case in instances)
    assert str(instances[0]) == "[2, 1] to [-1] gives [2]"
    assert list_names(read(["N", "4*C"], ["M/2", 3], expected=["E", None])) == {"N", "C", "M", "E"}


def test_candidates_include_values_directly_outside_expected_bounds():
    candidates = {values["N"]: accepted for values, accepted in list_candidates(read(["N"], [0], expected=[(20, 30)]))}
    assert {value: candidates[value] for value in (19, 20, 30, 31)} == {19: False, 20: True, 30: True, 31: False}


def test_candidates_of_unknown_rank_name_their_dims_by_position():
    values = [values for values, _ in list_candidates(read(None, [0]))]
    assert {tuple(one) for one in values} >= {(), ("data[0]",), ("data[0]", "data[1]")}


@pytest.mark.parametrize(("data", "shape"), [(["M*N", (MAX_DIM, MAX_DIM)], [-1]), (["M", "2*M*N"], [0, 0])], ids=str)
def test_candidates_have_no_dim_that_is_too_large(data: list[DimLike], shape: list[DimLike]):
    # The rules state no condition for these queries, because no instance has such a dim.
    assert {is_accepted for _, is_accepted in list_candidates(read(data, shape))} == {True}


def test_chosen_numbers_and_their_multiples_are_accepted_values():
    assert {"N": 10**6 + 1} in list(list_accepted(read(["N"], [-1]), [10**6 + 1]))
    assert {"N": 2 * 10**6 + 2, "M": 10**6 + 1} in list(list_accepted(read(["N"], ["M", 2]), [10**6 + 1]))
    assert [values["N"] for values in list_accepted(read(["N:5..8"], [-1]), [6, 9])][:2] == [6, 5]
    many = read([*(f"N{index}:3..9" for index in range(5)), 0], ["M:2..9000000", 0, 0, 0, 0, 0])
    assert any(values["M"] == 10**6 for values in list_accepted(many, [10**6]))
    assert list(list_accepted(read([4], ["M:2..9000000", 3]), [10**6])) == []
