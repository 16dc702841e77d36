"""The requirements of a model, and the solver for the conditions of several nodes."""

from itertools import combinations, product

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import parser

from hypothesis_profiles import examples
from tensor_reshape.onnx import ModelReport, ModelVerdict, check_model
from tensor_reshape.onnx.requirements import Demand, find_contradiction, judge, solve
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.dims import Expression, Interval, Symbol, make_expression

SYMBOLS = {name: Symbol(name, Interval(0, 6)) for name in "abc"}


def parse(nodes: str, inputs: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[] y) {{ {nodes} }}')


def check(nodes: str, inputs: str) -> ModelReport:
    return check_model(parse(nodes, inputs))


def reshape(*target: int, output: str = "y", data: str = "x") -> str:
    """Returns a Reshape node with a constant target."""
    items = ",".join(map(str, target))
    return f"s_{output} = Constant<value_ints=[{items}]>() {output} = Reshape({data}, s_{output})"


def list_lines(report: ModelReport) -> list[str]:
    return list(map(str, report.requirements))


BRANCHES = """
y = If (flag) <
    then_branch = t () => (float[a,b] p) { s = Constant<value_ints=[2,12]>() p = Reshape(x, s) },
    else_branch = e () => (float[c,d] q) { r = Constant<value_ints=[3,12]>() q = Reshape(x, r) }>
"""
COUNTED = "n = Shape<start=0,end=1>(x) r = Constant<value_ints=[-1,12,64]>() s = Concat<axis=0>(n, r) y = Reshape(x, s)"
# the nodes, the inputs; the verdict, the requirements
REQUIREMENTS: dict[tuple[str, str], tuple[ModelVerdict, list[str]]] = {
    (reshape(1, 256), "float[batch,16,4,4] x"): (ModelVerdict.FROZEN, ["batch = 1 (declared dynamic; node y)"]),
    (reshape(1, 256), "float[?,16,4,4] x"): (ModelVerdict.FROZEN, ["x_dim_0 = 1 (declared dynamic; node y)"]),
    (reshape(0, 9, 8, 16), "float[batch,9,h,w] x"): (
        ModelVerdict.FROZEN,
        ["h*w = 128 unless batch = 0 (declared dynamic; node y)"],
    ),
    (reshape(128) + reshape(8, 3, output="z", data="k"), "float[h,w] x, float[h,3] k"): (
        ModelVerdict.FROZEN,
        [
            "h*w = 128 (declared dynamic; node y)",
            "h = 8 (declared dynamic; node z)",
            "w = 16 (declared dynamic; node y)",
        ],
    ),
    # a traced export
    (reshape(1, 128, 12, 64), "float[batch,seq,768] x"): (
        ModelVerdict.FROZEN,
        ["batch*seq = 128 (declared dynamic; node y)"],
    ),
    # a square and the name that follows from it
    (reshape(9), "float[side,side] x"): (ModelVerdict.FROZEN, ["side = 3 (declared dynamic; node y)"]),
    (reshape(-1, 6, 10, 64), "float[batch,seq,768] x"): (ModelVerdict.RESTRICTED, ["5 divides batch*seq (node y)"]),
    (reshape(0, -1, 10, 64), "float[batch,seq,768] x"): (
        ModelVerdict.RESTRICTED,
        ["batch >= 1 (node y)", "5 divides seq (node y)"],
    ),
    **{
        (reshape(*target), "float[batch,seq,768] x"): (ModelVerdict.OK, [])
        for target in [(0, 0, 12, 64), (-1, 12, 64), (-1, 768)]
    },
    # a tensor must have elements
    (COUNTED, "float[batch,seq,768] x"): (ModelVerdict.OK, ["batch >= 1 (node y)"]),
    (" ".join(reshape(1, 256, output=name) for name in ("y", "a", "b", "c")), "float[batch,16,4,4] x"): (
        ModelVerdict.FROZEN,
        ["batch = 1 (declared dynamic; nodes y, a, b and 1 more)"],
    ),
    # a dim that is not an input dim
    ("u = Unique(x) " + reshape(2, 3, data="u"), "float[batch] x"): (ModelVerdict.UNDECIDED, []),
    (BRANCHES, "bool flag, float[n,12] x"): (
        ModelVerdict.RESTRICTED,
        ["n = 2 (if y.then_branch runs; node p)", "n = 3 (if y.else_branch runs; node q)"],
    ),
}


@pytest.mark.parametrize("model", REQUIREMENTS)
def test_conditions_of_the_nodes_are_requirements_of_the_inputs(model: tuple[str, str]):
    report = check(*model)
    assert (report.verdict, list_lines(report), report.contradiction) == (*REQUIREMENTS[model], ())
    assert report.is_good


def test_requirements_of_two_branches_do_not_contradict():
    report = check_model(parse(BRANCHES, "bool flag, float[n,12] x"), probe_seconds=0)
    assert (report.verdict, report.contradiction) == (ModelVerdict.RESTRICTED, ())


def test_wrong_head_count_without_a_free_item_accepts_only_empty_inputs():
    report = check(reshape(0, 0, 10, 64), "float[batch,seq,768] x")
    assert [(str(condition), node) for condition, node in report.contradiction] == [("batch*seq = 0", 0)]
    assert (report.verdict, report.is_good) == (ModelVerdict.CONTRADICTION, False)


def test_product_that_is_zero_freezes_no_dim():
    zero = Condition(ConditionKind.EQUAL, multiply(1, "ab"), multiply(0))
    assert judge(zero) is ModelVerdict.RESTRICTED


def test_product_of_a_branch_freezes_no_dim():
    report = check(BRANCHES.replace("[2,12]", "[6,4]").replace("[3,12]", "[8,3]"), "bool flag, float[n,m] x")
    assert (report.verdict, list_lines(report)) == (
        ModelVerdict.RESTRICTED,
        ["m*n = 24 (if y.then_branch runs; node p)", "m*n = 24 (if y.else_branch runs; node q)"],
    )


def test_two_nodes_with_different_values_contradict():
    report = check(
        reshape(2, 12) + reshape(5, 5, output="m", data="k") + reshape(3, 12, output="z"), "float[n,12] x, float[5,5] k"
    )
    assert [(str(condition), node) for condition, node in report.contradiction] == [("n = 2", 0), ("n = 3", 2)]
    assert report.verdict is ModelVerdict.CONTRADICTION


def test_requirement_is_converted_to_json():
    (requirement,) = check(reshape(1, 256), "float[batch,16,4,4] x").requirements
    assert requirement.to_json() == {
        "condition": {
            "kind": "KIND_EQUAL",
            "left": {"factors": [{"name": "batch"}]},
            "right": {},
            "rule": 4,
            "item": "shape",
            "text": "batch = 1",
        },
        "nodes": [0],
        "graph": "",
        "verdict": "frozen",
    }


def multiply(number: int, names: str = "") -> Expression:
    return make_expression(number, [SYMBOLS[name] for name in names])


def equate(names: str, number: int, rest: str = "") -> Condition:
    return Condition(ConditionKind.EQUAL, multiply(1, names), multiply(number, rest))


def divide(number: int, names: str) -> Condition:
    return Condition(ConditionKind.DIVIDES, multiply(number), multiply(1, names))


def list_demands(*conditions: Condition) -> list[Demand]:
    return [Demand(condition, node) for node, condition in enumerate(conditions)]


def list_bad_nodes(*conditions: Condition, positive: frozenset[str] = frozenset()) -> list[int]:
    return [demand.node for demand in find_contradiction(list_demands(*conditions), positive)]


A_FOR_ELEMENTS = equate("a", 2)._replace(unless_zero=multiply(1, "b"))
VALUES: list[tuple[list[Condition], dict[str, int]]] = [
    ([equate("ab", 6), equate("a", 2)], {"a": 2, "b": 3}),
    ([equate("aa", 4)], {"a": 2}),
    ([divide(2, "a"), divide(3, "a"), Condition(ConditionKind.RANGE, multiply(1, "a"), None, 1)], {"a": 6}),
    # a condition for tensors with elements
    ([A_FOR_ELEMENTS], {}),
    ([A_FOR_ELEMENTS, equate("b", 3)], {"a": 2, "b": 3}),
    ([A_FOR_ELEMENTS, equate("b", 0)], {"b": 0}),
]
CONTRADICTIONS: list[tuple[list[Condition], list[int]]] = [
    ([equate("b", 4), equate("a", 2), equate("a", 3)], [1, 2]),
    ([equate("a", 3), divide(2, "a")], [0, 1]),
    ([equate("aa", 5)], [0]),
    ([equate("ab", 6), equate("c", 1), equate("a", 2), equate("b", 2)], [0, 2, 3]),
    # the smallest set of nodes
    ([equate("ab", 6), equate("a", 2), equate("b", 2), equate("c", 1), equate("c", 2)], [3, 4]),
    ([equate("ab", 0)], []),
]


def test_values_follow_from_several_conditions():
    found = [solve(list_demands(*conditions)).values for conditions, _ in VALUES]
    assert [{name: value for name, (value, _) in values.items()} for values in found] == [row for _, row in VALUES]


def test_contradiction_names_the_smallest_set_of_nodes():
    assert [list_bad_nodes(*conditions) for conditions, _ in CONTRADICTIONS] == [row for _, row in CONTRADICTIONS]
    assert list_bad_nodes(equate("ab", 0), positive=frozenset("ab")) == [0]


def find_values(*conditions: Condition) -> dict[str, int] | None:
    """Returns the values that follow from conditions, or None if they contradict each other."""
    found = [solve(list_demands(*order)) for order in (conditions, conditions[::-1])]
    assert bool(found[0].contradicting) == bool(found[1].contradicting)
    values = [{name: value for name, (value, _) in one.values.items()} for one in found]
    assert values[0] == values[1]
    return None if found[0].contradicting else values[0]


def bound_name(name: str, low: int, high: int | None) -> Condition:
    return Condition(ConditionKind.RANGE, multiply(1, name), None, low, high)


def name_only(legal: list[int]) -> dict[str, int] | None:
    """Returns the result for the legal values of the name a, which are all that its conditions accept."""
    return None if not legal else {"a": legal[0]} if len(legal) == 1 else {}


def test_conditions_of_one_name_give_exactly_its_legal_values():
    for step, other, factor, low, high in product((1, 2, 3, 4), (1, 2, 3), (1, 2), range(4), range(1, 8)):
        conditions = divide(step, "a"), Condition(ConditionKind.DIVIDES, multiply(other), multiply(factor, "a"))
        legal = [size for size in range(low, min(high, 6) + 1) if size % step == 0 and factor * size % other == 0]
        found = find_values(*conditions, bound_name("a", low, high))
        assert found == name_only(legal), (step, other, factor, low, high)


def test_multiple_or_power_of_one_name_gives_its_value():
    for number, power, value in product((1, 2, 3), (1, 2), range(13)):
        condition = Condition(ConditionKind.EQUAL, multiply(number, "a" * power), multiply(value))
        legal = [size for size in range(7) if number * size**power == value]
        assert find_values(condition) == name_only(legal), condition


def test_name_that_divides_a_number_is_not_above_it():
    for number, value, low in product((1, 2), range(1, 7), range(1, 7)):
        condition = Condition(ConditionKind.DIVIDES, multiply(number, "a"), multiply(value))
        limit = value // number
        expected = None if low > limit or value % number else {"a": limit} if low == limit else {}
        assert find_values(condition, bound_name("a", low, None)) == expected, (number, value, low)


def test_product_of_two_names_is_solved_if_one_is_known():
    for value, known, number in product(range(13), range(7), (1, 2)):
        condition = Condition(ConditionKind.EQUAL, multiply(number, "ab"), multiply(value))
        legal = [size for size in range(7) if number * size * known == value]
        expected = None if not legal else {"b": known} if len(legal) > 1 else {"a": legal[0], "b": known}
        assert find_values(condition, equate("b", known)) == expected, (value, known, number)


def test_divisors_of_a_product_are_those_of_its_unknown_name():
    for step, known in product(range(1, 7), range(7)):
        condition = Condition(ConditionKind.DIVIDES, multiply(step), multiply(1, "ab"))
        legal = [size for size in range(1, 7) if size * known % step == 0]
        expected = name_only(legal)
        found = find_values(condition, equate("b", known), bound_name("a", 1, 6))
        assert found == (None if expected is None else expected | {"b": known}), (step, known)


def test_range_of_a_product_is_checked_if_its_names_are_known():
    for one, other, low, high in product(range(4), range(4), range(10), (None, *range(10))):
        condition = Condition(ConditionKind.RANGE, multiply(1, "ab"), None, low, high)
        fits = low <= one * other and (high is None or one * other <= high)
        found = find_values(condition, equate("a", one), equate("b", other))
        assert found == ({"a": one, "b": other} if fits else None), (one, other, low, high)
    assert find_values(Condition(ConditionKind.RANGE, multiply(1, "ab"), None, 9, 8), equate("a", 1)) == {"a": 1}


def test_contradiction_has_the_fewest_nodes_and_only_necessary_demands():
    pool = [
        equate("a", 2),
        divide(3, "a"),
        bound_name("a", 3, 4),
        equate("b", 4),
        equate("ab", 6),
        bound_name("b", 0, 2),
    ]
    demands = [Demand(condition, place // 2) for place, condition in enumerate(pool)] + [Demand(divide(5, "b"), 3)]
    for count in range(1, len(demands) + 1):
        for some in combinations(demands, count):
            found = find_contradiction(some)
            assert bool(found) == bool(solve(some).contradicting), some
            if not found:
                continue
            assert solve(found).contradicting
            for demand in found:
                assert not solve([one for one in found if one is not demand]).contradicting, (some, demand)
            nodes = {demand.node for demand in found}
            for group in combinations({demand.node for demand in some}, len(nodes) - 1):
                assert not solve([demand for demand in some if demand.node in group]).contradicting, (some, group)


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
