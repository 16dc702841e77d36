"""The solver for the conditions of several nodes."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.onnx.constraints import Demand, find_contradiction, solve
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import Expression, Interval, Symbol, make_expression

SYMBOLS = {name: Symbol(name, Interval(0, 6)) for name in "abc"}


def multiply(number: int, names: str = "") -> Expression:
    return make_expression(number, [SYMBOLS[name] for name in names])


def equate(names: str, number: int, rest: str = "") -> Condition:
    return Condition(ConditionKind.EQUAL, multiply(1, names), multiply(number, rest))


def divide(number: int, names: str) -> Condition:
    return Condition(ConditionKind.DIVIDES, multiply(number), multiply(1, names))


def list_demands(*conditions: Condition) -> list[Demand]:
    return [Demand(condition, node) for node, condition in enumerate(conditions)]


def list_values(*conditions: Condition) -> dict[str, int]:
    return {name: value for name, (value, _) in solve(list_demands(*conditions)).values.items()}


def list_bad_nodes(*conditions: Condition, positive: frozenset[str] = frozenset()) -> list[int]:
    return [demand.node for demand in find_contradiction(list_demands(*conditions), positive)]


def test_value_of_one_name_solves_a_product():
    assert list_values(equate("ab", 6), equate("a", 2)) == {"a": 2, "b": 3}


def test_square_of_a_name_is_solved():
    assert list_values(equate("aa", 4)) == {"a": 2}


def test_divisors_of_a_name_are_combined():
    assert list_values(divide(2, "a"), divide(3, "a"), Condition(ConditionKind.RANGE, multiply(1, "a"), None, 1)) == {
        "a": 6
    }


def test_different_values_of_a_name_contradict():
    assert list_bad_nodes(equate("b", 4), equate("a", 2), equate("a", 3)) == [1, 2]


def test_value_and_divisor_of_a_name_contradict():
    assert list_bad_nodes(equate("a", 3), divide(2, "a")) == [0, 1]


def test_square_without_a_root_contradicts():
    assert list_bad_nodes(equate("aa", 5)) == [0]


def test_contradiction_of_three_conditions_names_all_of_them():
    assert list_bad_nodes(equate("ab", 6), equate("c", 1), equate("a", 2), equate("b", 2)) == [0, 2, 3]


def test_contradiction_names_the_smallest_set_of_nodes():
    found = list_bad_nodes(equate("ab", 6), equate("a", 2), equate("b", 2), equate("c", 1), equate("c", 2))
    assert found == [3, 4]


def test_product_of_zero_contradicts_positive_names():
    assert list_bad_nodes(equate("ab", 0)) == []
    assert list_bad_nodes(equate("ab", 0), positive=frozenset("ab")) == [0]


def test_condition_for_tensors_with_elements_waits_for_positive_names():
    condition = equate("a", 2)._replace(unless_zero=multiply(1, "b"))
    assert list_values(condition) == {}
    assert list_values(condition, equate("b", 3)) == {"a": 2, "b": 3}
    assert list_values(condition, equate("b", 0)) == {"b": 0}


def relate(kind: ConditionKind, left: Expression, right: Expression, zero: Expression | None) -> Condition:
    return Condition(kind, left, right, unless_zero=zero)


def bound(product: Expression, low: int, high: int) -> Condition:
    return Condition(ConditionKind.RANGE, product, None, low, high)


# Hypothesis would fill the optional fields of a NamedTuple with any value, so the strategies build them by functions.
PRODUCTS = st.builds(multiply, st.integers(1, 6), st.text("abc", max_size=2))
CONDITIONS = st.one_of(
    st.builds(
        relate,
        st.sampled_from([ConditionKind.EQUAL, ConditionKind.DIVIDES]),
        PRODUCTS,
        st.one_of(PRODUCTS, st.just(multiply(0))),
        st.one_of(st.none(), st.sampled_from("abc").map(lambda name: multiply(1, name))),
    ),
    st.builds(bound, PRODUCTS, st.integers(0, 3), st.integers(3, 9)),
)


@given(conditions=st.lists(CONDITIONS, min_size=1, max_size=4))
@examples(200)
def test_solution_is_sound_for_enumerated_values(conditions: list[Condition]):
    names = sorted({name for condition in conditions for name in condition.symbols})
    instances = (dict(zip(names, values, strict=True)) for values in product(range(7), repeat=len(names)))
    accepted = [one for one in instances if all(condition.holds(one) for condition in conditions)]
    solution = solve(list_demands(*conditions))
    assert not (solution.contradicting and accepted)
    assert all(one[name] == value for one in accepted for name, (value, _) in solution.values.items())
    filled = [one for one in accepted if all(one.values())]
    assert not (find_contradiction(list_demands(*conditions), frozenset(names)) and filled)
