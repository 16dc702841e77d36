"""The instances of a query with few possible values."""

from itertools import product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, find_bounds, make_expression, name_dim
from tensor_reshape.rules.view_instances import MAX_INSTANCES, Instance, list_instances

few = st.integers(0, 3) | st.tuples(st.integers(0, 2), st.integers(1, 2)).map(
    lambda pair: Dim(Interval(pair[0], sum(pair)))
)


def list_values(dims: list[AnyDim]) -> list[tuple[int, ...]]:
    bounds = map(find_bounds, dims)
    return list(product(*(range(own.min, (own.max or 0) + 1) for own in bounds)))


@examples(300)
@given(st.lists(few, max_size=3), st.lists(few, max_size=2))
def test_instances_are_all_pairs_with_equal_numbers_of_elements(data: list[AnyDim], output: list[AnyDim]):
    pairs = product(list_values(data), list_values(output))
    expected = [Instance(*pair) for pair in pairs if prod(pair[0]) == prod(pair[1]) > 0]
    found = list_instances(data, output, (), StepBudget())
    assert found is None or sorted(found) == sorted(expected)
    assert found is not None or len(expected) > MAX_INSTANCES


def test_equal_names_have_equal_values_in_each_instance():
    doubled = Dim(ANY, make_expression(2, [Symbol("N")]))
    found = list_instances([name_dim("N", 1, 3), 4], [doubled, name_dim("M", 1, 2)], (), StepBudget())
    assert found == [Instance((own, 4), (2 * own, 2)) for own in (1, 2, 3)]


def test_copied_dim_has_the_value_of_its_data_dim():
    data: list[AnyDim] = [Dim(Interval(1, 2)), Dim(Interval(1, 2))]
    found = list_instances(data, [Dim(Interval(1, 2)), None], (0,), StepBudget())
    assert found == [Instance(pair, pair) for pair in product((1, 2), (1, 2))]


def test_instances_of_unlimited_or_large_dims_are_not_listed():
    assert list_instances([None, 2], [None], (), StepBudget()) is None
    assert list_instances([Dim(Interval(1, 1000))], [None], (), StepBudget()) is None
    assert list_instances([2**62], [None, None], (), StepBudget()) is None
    assert list_instances([2**62, 8], [None, None], (), StepBudget()) is None  # more elements than a list can have


def test_few_instances_with_many_elements_are_listed():
    found = list_instances([2, 4096], [Dim(Interval(2, 3)), None], (), StepBudget())
    assert found == [Instance((2, 4096), (2, 4096))]


def test_search_without_instances_ends_with_its_budget():
    budget = StepBudget()
    output: list[AnyDim] = [Dim(Interval(1, 2))] * 60
    assert list_instances([3 * 2**10], output, (), budget) is None
    assert budget.left < 0
