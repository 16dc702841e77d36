"""Closed forms: if a query has one, it is equal to the result of the general solver."""

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.inference import _search
from tensor_reshape.rules.limits import StepBudget
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question
from tensor_reshape.rules.solvers.single import solve_single
from tensor_reshape.rules.targets import read_target

LARGE = [100, 2**31, 2**62, 2**63 - 2, 2**63 - 1]
lows = st.sampled_from([0, 0, 1, 2, 5, 64, 2**62])
highs = st.sampled_from([None, 0, 1, 2, 7, 64, 2**62, 2**63 - 1])
bounds = st.builds(Interval, lows, highs).filter(lambda bound: not bound.is_empty)
numbers = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 64, *LARGE])
names = st.builds(lambda name, bound: name_dim(name, *bound), st.sampled_from([*"NMKL", "N + 1", "2*N + 2"]), bounds)
dims = st.one_of(numbers, st.none(), st.builds(Dim, bounds), names)
items = st.sampled_from([-1, -1, 0, 0, 0, 1, 2, 3, 4, 6, 12, 64, *LARGE])


@examples(1000)
@given(
    st.sampled_from([STATIC_RESHAPE, RESHAPE]),
    st.lists(dims, max_size=4),
    st.lists(items, max_size=4),
    st.booleans(),
)
def test_closed_form_solution_agrees_with_the_general_solver(
    operation: Operation, data: list[AnyDim], items: list[int], special_zero: bool
):
    question: AnyQuestion = Question(operation, data, items, special_zero)
    target = read_target(question, items)
    solved = solve_single(data, target)
    if solved is not None:
        assert _search(question, target, StepBudget()) == solved
