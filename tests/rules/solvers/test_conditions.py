"""The conditions of queries: their normal form, and the instances that satisfy them."""

from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from dense_questions import choose_dense
from hypothesis_profiles import examples
from strategies import SMALL_QUESTIONS
from tensor_reshape.rules.conditions import Condition, ConditionKind
from tensor_reshape.rules.inference import answer_question, infer
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeAnswer, ShapeRequest
from tests.oracles.shape_instances import answer_concrete, ask
from written_questions import describe_answer, write_question

# operation, data, target with special_zero, expected; the conditions, and whether they are complete
CONDITIONS: dict[tuple[Operation, str, str, str | None], tuple[str, bool]] = {
    # no -1: equal volumes
    (RESHAPE, "batch 16 4 4", "1 256", None): ("batch = 1 [4 shape]", True),
    (RESHAPE, "N 4", "M 2", None): ("2*N = M [4 shape]", True),
    (RESHAPE, "N 4", "M 4", None): ("N = M [4 shape]", True),
    (RESHAPE, "N M", "N K", None): ("M = K unless N = 0 [4 shape]", True),
    (RESHAPE, "N:1..8 M", "N K", None): ("M = K [4 shape]", True),
    (RESHAPE, "N:0..1", "N N", None): ("", True),  # N is 1 unless it is 0
    (STATIC_RESHAPE, "A:0..1 A B:0..1", "A B B", None): ("", True),
    (RESHAPE, "N:0..2", "N N", None): ("N = 1 unless N = 0 [4 shape]", True),
    (RESHAPE, "N:0..1", "N 7", None): ("N = 0 [4 shape]", True),
    (RESHAPE, "N 4", "N M", None): ("M = 4 unless N = 0 [4 shape]", True),
    (RESHAPE, "? 6", "3 2..9", None): ("2*data[0] = shape[1] [4 shape]", True),
    (RESHAPE, "b h w", "12", None): ("b*h*w = 12 [4 shape]", True),
    (RESHAPE, "N N", "49", None): ("N = 7 [4 shape]", True),
    (RESHAPE, "N 4", "0 2", None): ("N = 0 [4 shape]", True),
    (RESHAPE, "N M 4", "0 M 2", None): ("M*N = 0 [4 shape]", True),
    (RESHAPE, "N 0", "M 3", None): ("M = 0 [4 shape]", True),
    (RESHAPE, "N 0", "0 0", None): ("", True),
    # a -1: a quotient
    (RESHAPE, "b 6", "4 -1", None): ("2 divides b [3 shape[1]]", True),
    (RESHAPE, "b:1..3 6", "4 -1", None): ("b = 2 [3 shape[1]]", True),
    (RESHAPE, "batch 9 h w", "-1 1 3 3 224 224", None): ("50176 divides batch*h*w [3 shape[0]]", True),
    (RESHAPE, "N N 3", "-1 12", None): ("2 divides N [3 shape[0]]", True),
    (RESHAPE, "N N 3", "-1 24", None): ("4 divides N [3 shape[0]]", True),
    (RESHAPE, "12", "N -1", None): ("N divides 12 [3 shape[1]]", True),
    (RESHAPE, "12", "N:2..2 -1", None): ("", True),
    (RESHAPE, "12", "N:7..12 -1", None): ("N = 12 [3 shape[1]]", True),
    (RESHAPE, "12 M", "N -1", None): ("N >= 1 [3 shape[0]], N divides 12*M [3 shape[1]]", True),
    (RESHAPE, "N 4", "0 -1", None): ("", True),
    (STATIC_RESHAPE, "N 4", "0 -1", None): ("N >= 1 [3 shape[0]]", True),
    (STATIC_RESHAPE, "? 4", "0 -1", None): ("data[0] >= 1 [3 shape[0]]", True),
    (STATIC_RESHAPE, "N:0..1 4", "0 -1", None): ("N = 1 [3 shape[0]]", True),
    # what expressions declare
    (RESHAPE, "N/4 3", "-1 6", None): ("8 divides N [3 shape[0]]", True),
    (RESHAPE, "N/4 N", "-1 4", None): ("", True),
    (RESHAPE, "b*h/6 3", "-1 3", None): ("", True),
    # an expected shape
    (RESHAPE, "N 4", "-1", "8..16"): ("2 <= N <= 4 [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N 4", "-1", "8"): ("N = 2 [3 shape[0]]", True),
    (RESHAPE, "N 4", "-1", "M"): ("4*N = M [3 shape[0]]", True),
    (RESHAPE, "N 4", "0 4", "M 4"): ("N = M [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N 4", "0 4", "3.. 4"): ("N >= 3 [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N A", "-1 B", "N ?"): ("B >= 1 [3 shape[1]], A = B unless N = 0 [3 shape[0]]", True),
    (RESHAPE, "A B:1..", "K -1", "? A"): ("K >= 1 [3 shape[0]], B = K unless A = 0 [3 shape[1]]", True),
    (RESHAPE, "N:1..3 M:1..3", "-1", "0..9"): ("", True),
    (RESHAPE, "N N", "-1", "5..30"): ("3 <= N <= 5 [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N N M", "N N -1", "0..5 0..3 ?"): ("N >= 1 [3 shape[0]], N <= 3 [5 expected_shape.dims[1]]", True),
    (RESHAPE, "N:1..3 M:1..3", "-1", "2..8"): ("2 <= M*N <= 8 [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N M", "M -1", "2.. 2..3"): (
        "M >= 2 [5 expected_shape.dims[0]], 2 <= N <= 3 [5 expected_shape.dims[1]]",
        True,
    ),
    # a product of names in an expected shape
    (RESHAPE, "N 4", "-1", "2*M"): ("2*N = M [3 shape[0]]", True),
    (RESHAPE, "N", "-1 2", "M/2 2"): ("2 divides M [5 expected_shape.dims[0]], N = M [3 shape[0]]", True),
    (RESHAPE, "N 4", "0 4", "2*M:4.. 4"): (
        "N = 2*M [5 expected_shape.dims[0]], M >= 2 [5 expected_shape.dims[0]]",
        True,
    ),
    (RESHAPE, "K", "-1", "2*K"): ("K = 0 [3 shape[0]]", True),
    (RESHAPE, "N", "M:0..1", "M/2"): ("M = 0 [5 expected_shape.dims[0]], N = 0 [4 shape]", True),
    (RESHAPE, "4", "4", "2*K"): ("K = 2 [5 expected_shape.dims[0]]", True),
    # both ends of a range, which two rules may demand
    (STATIC_RESHAPE, "N 4", "0 -1", "0..5 ?"): ("N >= 1 [3 shape[0]], N <= 5 [5 expected_shape.dims[0]]", True),
    (RESHAPE, "N N M", "N N -1", "0..5 2..9 ?"): (
        "N <= 5 [5 expected_shape.dims[0]], N >= 2 [5 expected_shape.dims[1]]",
        True,
    ),
    (RESHAPE, "N N M", "N N -1", "3.. 1..3 ?"): ("N = 3 [5 expected_shape.dims[1]]", True),
    # a condition that follows from the bounds or from another condition
    (RESHAPE, "2 M", "a:1..2 -1", None): ("", True),
    (RESHAPE, "1..3", "N -1", None): ("N divides data[0] [3 shape[1]]", True),
    (RESHAPE, "0..3", "N -1", None): ("N >= 1 [3 shape[0]], N divides data[0] [3 shape[1]]", True),
    # a condition in another order, or with an exception
    (RESHAPE, "A", "B", "A"): ("B = A [5 expected_shape.dims[0]]", True),
    (RESHAPE, "A/2 5", "0 B", "? A/2"): ("2*B = A [5 expected_shape.dims[1]], B = 5 unless A = 0 [4 shape]", True),
    (RESHAPE, "6*M N", "N K/2", "? 6*M"): ("K = 12*M [5 expected_shape.dims[1]]", True),
    # sums with a common base, and sums that are above 0
    (RESHAPE, "b+1 2", "2*b+2", None): ("", True),
    (RESHAPE, "a+b 4", "3*a+3*b", None): ("a+b = 0 [4 shape]", True),
    (RESHAPE, "2*b+2", "b+1 -1", None): ("", True),
    (RESHAPE, "2*b+2 3", "-1 4", None): ("4 divides 2*b+2 [3 shape[0]]", True),
    (STATIC_RESHAPE, "b+1 4", "0 -1", None): ("", True),
    (RESHAPE, "4 b+1", "-1", "M"): ("4*(b+1) = M [3 shape[0]]", True),
    # unknown items leave alternatives
    (RESHAPE, "N 4", "? 2", None): ("", False),
    (RESHAPE, "N 4", "? 8", None): ("2 divides N [4 shape]", False),
    (RESHAPE, "M N 4", "0 ? 8", None): ("2 divides N unless M = 0 [4 shape]", False),
    (STATIC_RESHAPE, "M N 4", "0 ? -1", None): ("M >= 1 [3 shape[0]]", False),
    (RESHAPE, "N 4", "? 2", "6 ?"): ("N = 3 [4 shape]", False),
    # numbers that a condition cannot have
    (RESHAPE, "N M", f"{2**40} {2**40}", None): ("", False),
}


def describe(answer: ShapeAnswer) -> tuple[str, bool]:
    shown = [f"{condition} [{condition.rule} {condition.item}]" for condition in answer.conditions]
    return ", ".join(shown), answer.conditions_complete


def test_conditions_have_their_normal_form():
    found = {row: describe(infer(write_question(*row[:3], True, row[3]))) for row in CONDITIONS}
    assert found == CONDITIONS


def test_contradictory_conditions_reject_the_query():
    for data, target, expected, reason in (
        ("N", "N -1", "? 2", "EXPECTED_SHAPE_MISMATCH expected_shape.dims[1]"),  # N / N is 1
        ("N K", "0 0", "M:3..9 M:0..2", "SYMBOL_CONFLICT expected_shape.dims[1]"),
        ("N:1.. 3", "0 3", "2*K 2", "EXPECTED_SHAPE_MISMATCH expected_shape.dims[1]"),
        ("K", "-1", "2*K:1..", "EXPECTED_SHAPE_MISMATCH expected_shape"),
        ("3", "3", "2*K", "EXPECTED_SHAPE_MISMATCH expected_shape"),
    ):
        assert describe_answer(write_question(RESHAPE, data, target, True, expected)) == reason


def test_same_query_has_the_same_conditions():
    request = ShapeRequest(write_question(STATIC_RESHAPE, "N M ? 6", "0 0 -1 K", True, "? ? 2..9 ?"))
    answers = [answer_question(request) for _ in range(3)]
    assert len(answers[0].conditions) > 2
    assert answers[0] == answers[1] == answers[2]


def list_items(question: AnyQuestion) -> set[tuple[int, str]]:
    """Returns the rule and the item that a condition may have."""
    wanted = {(5, f"expected_shape.dims[{at}]") for at, want in enumerate(question.expected or ()) if want is not None}
    items = question.target or ()
    if -1 not in items:
        return {*wanted, (4, "shape")}
    # The product that divides the data must not be 0. A number above 0 never makes it 0, and a copied dim of Reshape-1
    # is not in it.
    kept = [None, *([0] if question.operation is RESHAPE else []), *range(1, 10)]
    return {*wanted, *((3, f"shape[{at}]") for at, item in enumerate(items) if item not in kept)}


def test_condition_has_a_rule_and_an_item_that_can_demand_it():
    random = Random(3)
    for _ in range(2000):
        question = choose_dense(random)
        answer = None if question.target is None else ask(question)
        for condition in () if answer is None else answer.conditions:
            assert (condition.rule, condition.item) in list_items(question), (question, str(condition))


@examples(300)
@given(SMALL_QUESTIONS)
def test_no_condition_is_listed_twice(question: AnyQuestion):
    answer = ask(question)
    relations = [
        (condition.kind, _order(condition), condition.min, condition.max)
        for condition in (() if answer is None else answer.conditions)
        if condition.unless_zero is None
    ]
    assert len({*relations}) == len(relations)


def _order(condition: Condition) -> tuple[str, ...]:
    """Returns both products of a condition, in a fixed order if they are equal."""
    products = [str(condition.left), str(condition.right)]
    return tuple(sorted(products) if condition.kind is ConditionKind.EQUAL else products)


# dims; how often they contain a base, and the base
SUMS = {
    "b": (1, "b"),
    "2*b": (2, "b"),
    "b + b": (2, "b"),
    "b + 1": (1, "b + 1"),
    "2*b + 2": (2, "b + 1"),
    "3 + 3*b": (3, "b + 1"),
    "2*b + 1": (1, "2*b + 1"),
}
NUMBERS = {str(number): number for number in (-1, 0, 1, 2, 3, 4, 6)}


def evaluate(size: int, next_size: int, odd_size: int) -> dict[str, int]:
    """Returns the values of all dims, if the sizes are `b`, and those of `b` in `b + 1` and `2*b + 1`."""
    bases = {"b": size, "b + 1": next_size + 1, "2*b + 1": 2 * odd_size + 1}
    return NUMBERS | {name: factor * bases[base] for name, (factor, base) in SUMS.items()}


@examples(300)
@given(
    st.sampled_from([STATIC_RESHAPE, RESHAPE]),
    st.lists(st.sampled_from([*SUMS, "1", "2", "3", "4", "6"]), max_size=3),
    st.lists(st.sampled_from([*SUMS, *SUMS, *NUMBERS]), max_size=3),
    st.booleans(),
)
def test_conditions_of_sums_are_exact_and_no_tautologies(
    operation: Operation, data: list[str], target: list[str], special_zero: bool
):
    shape, items = ([parse_dim(text) for text in texts] for texts in (data, target))
    question: AnyQuestion = Question(operation, shape, items, special_zero)
    answer = ask(question)
    conditions = () if answer is None else answer.conditions
    for size in range(40):
        values = evaluate(size, size, size)
        instance = [(text in SUMS, values[text]) for text in target]
        output = answer_concrete(question, tuple(values[text] for text in data), instance)
        is_satisfied = answer is not None and all(condition.holds(values) for condition in conditions)
        assert is_satisfied is (output is not None), size
    sizes = [evaluate(*row) for row in product(range(13), repeat=3)]
    assert not any(all(map(condition.holds, sizes)) for condition in conditions)
