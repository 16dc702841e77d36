"""Case splits of the solver: the example of each derivation, and the facts that hold for all cases."""

from tensor_reshape.rules.limits import StepBudget
from tensor_reshape.rules.operations import RESHAPE, Operation
from tensor_reshape.rules.solvers.cases import ValueCase, solve
from tensor_reshape.rules.solvers.equations import Range, build_system
from tensor_reshape.rules.targets import read_target
from written_questions import read_shape, write_question


def build(
    operation: Operation, data: str | None, target: str, *, special_zero: bool = True, steps: int = 4000
) -> ValueCase:
    question = write_question(operation, data, target, special_zero)
    read = read_target(question, read_shape(target) or [])
    return ValueCase(build_system(question, read), read, StepBudget(steps))


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
