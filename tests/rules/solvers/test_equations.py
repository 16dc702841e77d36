"""Dims as monomials, volumes as equations, and what is known of their variables."""

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.limits import MAX_DIM
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.solvers.equations import UNBOUNDED, Equation, Range, System, build_system, find_range
from tensor_reshape.rules.targets import Target, read_target
from written_questions import read_shape, write_question


def build(
    data: str | None, target: str, operation: Operation = RESHAPE, expected: str | None = None
) -> tuple[System, Target[AnyDim]]:
    question = write_question(operation, data, target, True, expected)
    read = read_target(question, read_shape(target) or [])
    return build_system(question, read), read


def test_a_dim_without_an_upper_bound_has_an_open_range():
    texts = ["4", "?", "2..", "N:2..", "N:2..3"]
    ends = [(4, 4), (0, MAX_DIM), (2, MAX_DIM), (2, MAX_DIM), (2, 3)]
    assert [find_range(parse_dim(text)) for text in texts] == ends
    assert [Range(0, high).is_open for high in (MAX_DIM - 1, MAX_DIM, UNBOUNDED)] == [False, True, True]


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


def test_a_number_is_not_a_variable():
    system, _ = build("4", "4")
    assert (system.data[0].coefficient, system.data[0].variables, system.ranges) == (4, (), [])


def test_bounds_of_a_symbol_from_several_places_meet():
    system, _ = build("N:0..8 N:2..9", "2*N:4..6")
    assert system.ranges == [Range(2, 3)]


def test_divisors_are_multiplied_to_the_other_side():
    system, target = build("2*N M", "K N/3")
    names = {key: symbol.name for key, symbol in system.symbols.items()}
    equation = system.equate(target)
    assert [sorted(names[key] for key in side) for side in equation[:2]] == [["M", "N"], ["K", "N"]]
    assert equation.constants == (6, 1)


def test_cancelled_copies_are_on_neither_side():
    for operation, sides in ((RESHAPE, (1, 1)), (STATIC_RESHAPE, (2, 2))):
        system, target = build("N M", "0 -1", operation)
        equation = system.equate(target)
        assert (len(equation.left), len(equation.right)) == sides, operation


def test_data_of_an_unknown_rank_is_its_copies_and_the_rest():
    system, target = build(None, "0 3", STATIC_RESHAPE)
    assert system.rest is not None
    assert system.equate(target).left == [*system.data[0].variables, system.rest]


def test_equal_factors_are_cancelled_once_for_each_time():
    assert Equation([1, 1, 2], [1, 3], (6, 4)).cancel() == Equation([1, 2], [3], (3, 2), (1,))


def test_a_monomial_has_the_range_of_its_variables():
    system, _ = build("2*N*M N:1..3 M:2..2", "0 0 0")
    assert system.bound_monomial(system.data[0]) == Range(4, 12)


def test_an_expected_dim_narrows_and_names_the_variable_of_the_output():
    narrowed, _ = build("?", "?", expected="2..3")
    assert narrowed.bound_monomial(narrowed.output[0]) == Range(2, 3)
    named, _ = build("N", "-1", expected="M:1..4")
    assert str(named.output[0].dim) == "M"


# data, target; reason and field
REFUSED: dict[tuple[str, str], str] = {
    ("N:1..2 N:3..4", "0"): "SYMBOL_CONFLICT data.dims[1]",
    (f"N:4.. {2**62}*N", "0"): "DIM_OUT_OF_RANGE data.dims[1]",
    ("N", "M -5"): "INVALID_TARGET_VALUE shape[1]",
}


def refuse(data: str, target: str) -> str:
    try:
        return str(build(data, target))
    except InvalidRequestError as error:
        return f"{error.reason} {error.field}"


def test_a_question_that_contradicts_itself_is_refused():
    assert {row: refuse(*row) for row in REFUSED} == REFUSED
