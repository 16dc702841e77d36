"""Dims as monomials, volumes as equations, and what is known of their variables."""

import pytest

from tensor_reshape.rules.dims import AnyDim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.solvers.equations import (
    UNBOUNDED,
    Equation,
    Range,
    System,
    build_system,
    find_range,
)
from tensor_reshape.rules.targets import Target, read_target
from written_questions import read_shape, write_question


def build(
    data: str | None, target: str, operation: Operation = RESHAPE, expected: str | None = None
) -> tuple[System, Target[AnyDim]]:
    question = write_question(operation, data, target, True, expected)
    read = read_target(question, read_shape(target) or [])
    return build_system(question, read), read


@pytest.mark.parametrize(
    ("dim", "own"),
    [(4, Range(4, 4)), (None, Range(0, MAX_DIM)), (name_dim("N", 2), Range(2, MAX_DIM)), (name_dim("N", 2, 3), (2, 3))],
    ids=str,
)
def test_a_dim_that_nothing_bounds_is_open(dim: AnyDim, own: Range):
    assert find_range(dim) == own


@pytest.mark.parametrize(
    ("high", "is_open"),
    [(MAX_DIM - 1, False), (MAX_DIM, True), (UNBOUNDED, True)],
    ids=["a bound", "the largest dim", "unbounded"],
)
def test_a_range_is_open_where_no_dim_is_larger(high: int, is_open: bool):
    assert Range(0, high).is_open is is_open


def test_ranges_meet_in_what_both_admit_and_join_to_what_either_does():
    one, other = Range(1, 4), Range(3, MAX_DIM)
    assert (one.meet(other), one.join(other), Range(1, 2).meet(other).is_empty) == ((3, 4), (1, MAX_DIM), True)


def test_no_product_of_a_question_is_unbounded():
    assert UNBOUNDED > (2**63) ** (4 * 64 + 256 + 2 * 64)


def test_a_symbol_is_one_variable_wherever_it_stands():
    system, _ = build("N 2*N/M", "M 0")
    assert (system.data[0].variables, system.data[1].divisors) == (system.data[1].variables, system.output[0].variables)


def test_dims_without_a_name_are_variables_of_their_own():
    system, _ = build("? 2..3", "? 2..3")
    assert len({*system.data[0].variables, *system.data[1].variables, *system.output[0].variables}) == 3


def test_a_number_is_no_variable():
    system, _ = build("4", "4")
    assert (system.data[0].coefficient, system.data[0].variables, system.ranges) == (4, (), [])


def test_what_is_said_of_a_symbol_in_several_places_meets():
    system, _ = build("N:0..8 N:2..9", "2*N:4..6")
    assert system.ranges == [Range(2, 3)]


def test_what_is_below_is_multiplied_out():
    system, target = build("2*N M", "K N/3")
    names = {key: symbol.name for key, symbol in system.symbols.items()}
    equation = system.equate(target)
    assert [sorted(names[key] for key in side) for side in equation[:2]] == [["M", "N"], ["K", "N"]]
    assert equation.constants == (6, 1)


@pytest.mark.parametrize(("operation", "left", "right"), [(RESHAPE, 1, 1), (STATIC_RESHAPE, 2, 2)], ids=str)
def test_cancelled_copies_are_on_neither_side(operation: Operation, left: int, right: int):
    system, target = build("N M", "0 -1", operation)
    equation = system.equate(target)
    assert (len(equation.left), len(equation.right)) == (left, right)


def test_data_of_an_unknown_rank_is_its_copies_and_the_rest():
    system, target = build(None, "0 3", STATIC_RESHAPE)
    assert system.rest is not None
    assert system.equate(target).left == [*system.data[0].variables, system.rest]


def test_what_stands_on_both_sides_is_cancelled_once_for_each_time():
    assert Equation([1, 1, 2], [1, 3], (6, 4)).cancel() == Equation([1, 2], [3], (3, 2), (1,))


def test_a_monomial_lies_where_its_variables_leave_it():
    system, _ = build("2*N*M N:1..3 M:2..2", "0 0 0")
    assert system.bound_monomial(system.data[0]) == Range(4, 12)


def test_an_expected_dim_narrows_the_variable_of_the_output():
    system, _ = build("?", "?", expected="2..3")
    assert system.bound_monomial(system.output[0]) == Range(2, 3)


def test_an_expected_name_is_that_of_a_dim_without_one():
    system, _ = build("N", "-1", expected="M:1..4")
    assert str(system.output[0].dim) == "M"


# data, target, reason, field
REFUSED: dict[str, tuple[str, str, Reason, str]] = {
    "a symbol of two sizes": ("N:1..2 N:3..4", "0", Reason.SYMBOL_CONFLICT, "data.dims[1]"),
    "an expression that no dim is": (f"N:4.. {2**62}*N", "0", Reason.DIM_OUT_OF_RANGE, "data.dims[1]"),
    "an item that is refused": ("N", "M -5", Reason.INVALID_TARGET_VALUE, "shape[1]"),
}


@pytest.mark.parametrize(("data", "target", "reason", "field"), REFUSED.values(), ids=REFUSED.keys())
def test_a_question_that_contradicts_itself_is_refused(data: str, target: str, reason: Reason, field: str):
    with pytest.raises(InvalidRequestError) as caught:
        build(data, target)
    assert (caught.value.reason, caught.value.field) == (reason, field)


def test_an_interval_and_a_range_of_the_same_ends_are_told_apart_by_their_open_end():
    assert (parse_dim("2.."), find_range(parse_dim("2.."))) == ((Interval(2, None), None), Range(2, MAX_DIM))
