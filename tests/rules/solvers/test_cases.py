"""Case splits of the solver: the example of each derivation, and the facts that hold for all cases."""

from tensor_reshape.rules.limits import MAX_DIM, StepBudget
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.solvers.cases import ValueCase, solve
from tensor_reshape.rules.solvers.equations import Range, build_system
from tensor_reshape.rules.targets import read_target
from written_questions import read_shape, write_question

Ends = list[tuple[int, int | None]] | None


def build(
    operation: Operation, data: str | None, target: str, *, special_zero: bool = True, steps: int = 4000
) -> ValueCase:
    question = write_question(operation, data, target, special_zero)
    read = read_target(question, read_shape(target) or [])
    return ValueCase(build_system(question, read), read, StepBudget(steps))


def find(case: ValueCase) -> Ends:
    """Returns the ends of each output dim, None for an open end; None if there is no instance."""
    solution = solve(case)
    if solution is None:
        return None
    ranges = [case.system.bound_monomial(monomial, solution) for monomial in case.system.output]
    return [(low, None if high >= MAX_DIM else high) for low, high in ranges]


# operation, data, target under special_zero; the ends of each output dim
SPLIT: dict[tuple[Operation, str | None, str], Ends] = {
    # elements
    (RESHAPE, "N:1.. 4", "N M 2"): [(1, None), (2, 2), (2, 2)],  # a factor of both sides cancels
    # empty
    (RESHAPE, "0 3", "? 5"): [(0, 0), (5, 5)],  # the item copies a 0
    (RESHAPE, "0 6", "0 ?"): [(0, 0), (1, None)],  # a 0 would copy a dim that is not 0
    (RESHAPE, "2 0", "? 5"): [(0, 0), (5, 5)],  # an unknown item is 0 only as the -1
    # inferred
    (RESHAPE, "0..4 6", "0 -1"): [(0, 4), (6, 6)],  # Reshape-1 removes the copy from both sides
    (STATIC_RESHAPE, "0..4 6", "0 -1"): [(1, 4), (6, 6)],  # a copy that divides is not 0
    # cancelled zeros: an unknown item may copy one; the graph operations reject them
    (RESHAPE, "0 6", "? -1"): [(0, None), (0, 6)],
    (STATIC_RESHAPE, "0 6", "? -1"): [(1, None), (0, 0)],
    # unknown rank
    (RESHAPE, None, "3 -1"): [(3, 3), (0, None)],
}


def test_shape_solver_returns_the_expected_ranges_for_each_case():
    assert {row: find(build(*row)) for row in SPLIT} == SPLIT
    assert find(build(RESHAPE, "2 0", "? 5", special_zero=False)) == [(0, 0), (5, 5)]


def test_shape_solver_keeps_ranges_if_the_search_is_too_expensive():
    for case in (
        build(RESHAPE, "0..2 0..2 0..2 0..2 0..3", "? ? ? ? -1"),
        build(RESHAPE, "0..2 0..2 0..2 0..2 0..3", "? ? ? ? ?"),
        build(RESHAPE, "2..9 3..9", "2..9 -1", steps=0),
    ):
        assert solve(case) == case.keep_ranges()


def test_all_case_splits_of_a_query_share_one_step_budget():
    case = build(RESHAPE, "2..90 3..90", "? 3..91 ?")
    solve(case)
    assert case.budget.left < 4000 - 64


def test_solving_cases_does_not_modify_the_ranges_of_the_query():
    case = build(RESHAPE, "0..2 0..2 6", "? ? -1")
    before = list(case.system.ranges)
    solve(case)
    assert case.system.ranges == before
    assert Range(0, 0) not in before
