"""The five rules by examples, the order of the checks, and the queries that need a search.

Properties compare inference with enumeration, with a second implementation of the rules, and with numpy.
"""

from itertools import product
from random import Random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from meters import count_calls
from tensor_reshape.rules import inference
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Interval,
    Symbol,
    find_bounds,
    format_dims,
    make_expression,
    name_dim,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.inference import Unsolved, answer_question, begin_answer, finish_answer, infer, infer_shape
from tensor_reshape.rules.limits import MAX_STEPS, Limits, StepBudget
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Kind, Question, ShapeAnswer, ShapeRequest, is_known
from tensor_reshape.rules.solvers.cases import solve
from tensor_reshape.rules.targets import read_target
from tests.oracles.round_trips import format_item
from tests.oracles.shape_instances import answer_concrete, ask
from verification.kit import is_stale, read_size
from verification.prove import STYLES, choose_question, prove
from written_questions import describe_answer, write_question

EVERY = tuple(OPERATIONS.values())
GRAPH = (STATIC_RESHAPE, DYNAMIC_RESHAPE)
MAX = 2**63 - 1

# data, target, special_zero; the output, or the reason and the field of the error. The conformance suite has no
# case for these.
SAME_FOR_ALL_OPERATIONS: dict[tuple[str | None, str | None, bool], str] = {
    # rule 2: copies, numbers, one -1
    (None, "3 0", True): "[3, ?]",
    ("2..5 ?", "0 0", True): "[2..5, ?]",
    ("? 3", "-2 ?", False): "INVALID_TARGET_VALUE shape[0]",
    (None, "3 -7", False): "INVALID_TARGET_VALUE shape[1]",
    ("?", str(2**63), False): "INVALID_TARGET_VALUE shape[0]",
    (None, "-1 ? -1", False): "MULTIPLE_MINUS_ONE shape[2]",
    # rule 3: the -1
    (f"7 {MAX}", "-1 7", False): f"[{MAX}, 7]",
    (f"{MAX} {MAX} {MAX}", f"{MAX} -1 {MAX}", True): f"[{MAX}, {MAX}, {MAX}]",
    (f"{2**62} " * 12, "0 " * 11 + "-1", True): format_dims([2**62] * 12),
    ("1..3 4", "-1", False): "[4..12]",
    ("? 1 2", "-1 2", False): "[?, 2]",
    (None, "3 -1 2", False): "[3, ?, 2]",
    ("7 1..2", "-1 5", False): "NOT_DIVISIBLE shape[0]",
    (f"{2**62}..{2**62 + 9} 4", "-1", False): "DIM_OVERFLOW shape[0]",
    # rule 4: the volume
    (f"{MAX} {MAX} 0", "0", False): "[0]",
    ("2 3", "3 ?", False): "[3, 2]",
    ("12", "? ?", False): "[1..12, 1..12]",
    ("2 3", "3 0..", False): "[3, 2]",
    ("2..3", "1..9", False): "[2..3]",
    ("? 3", "0 7", False): "[0, 7]",
    ("3..5 2", "1..2 2", False): "VOLUME_MISMATCH shape",
}


def test_all_operations_agree_on_the_common_rules():
    found = {row: {describe_answer(write_question(one, *row)) for one in EVERY} for row in SAME_FOR_ALL_OPERATIONS}
    assert found == {row: {want} for row, want in SAME_FOR_ALL_OPERATIONS.items()}


@pytest.mark.parametrize("size", ["core", "hostile"])
def test_conformance_cases_agree_with_the_rules(size: str):
    assert [case["id"] for case in read_size(size) if is_stale(case)] == []


# data, target with special_zero; results of Reshape-1, which removes copies from both sides, and of the graph
# operations
COPIES_WITH_MINUS_ONE: dict[tuple[str, str], tuple[str, str]] = {
    (f"0 {2**62} 2", "0 -1"): ("DIM_OVERFLOW shape[1]", "MINUS_ONE_WITH_ZERO_VOLUME shape[1]"),
    ("0..4 0", "0 0 -1"): ("[0..4, 0, 1]", "MINUS_ONE_WITH_ZERO_VOLUME shape[2]"),
    ("0..0 ?", "0 -1"): ("[0, ?]", "MINUS_ONE_WITH_ZERO_VOLUME shape[1]"),
    ("4 0..1 2", "-1 0"): ("[8, 0..1]", "[8, 1]"),
}


def test_copied_zero_dims_cancel_only_in_the_reshape_operation():
    found = {
        row: tuple({describe_answer(write_question(one, *row, True)) for one in group} for group in ((RESHAPE,), GRAPH))
        for row in COPIES_WITH_MINUS_ONE
    }
    assert found == {row: ({reshape}, {graph}) for row, (reshape, graph) in COPIES_WITH_MINUS_ONE.items()}


# data, target, special_zero, expected; the result of Reshape-1
RESHAPE_ANSWERS: dict[tuple[str | None, str | None, bool, str | None], str] = {
    ("3 0..1", "0..1 3", True, None): "[0..1, 3]",  # a length that may be 0 is not a copy
    (f"{2**61}..{2**61 + 1} 2", "-1", False, None): f"[{2**62}..{2**62 + 2}]",
    (f"1..{MAX} 1..{MAX}", "-1", False, None): "[1..]",
    # rule 1 for partially known shapes: contradictions about a symbol or an expression
    ("?", "?", False, "4..3"): "INTERVAL_EMPTY expected_shape.dims[0]",
    (f"2..{2**63}", "-1", False, None): "DIM_OUT_OF_RANGE data.dims[0]",
    (f"N:2..{2**63} 4", "0 -1", True, None): "DIM_OUT_OF_RANGE data.dims[0]",
    ("8", f"2..{2**63}", True, None): "DIM_OUT_OF_RANGE shape[0]",
    (f"N:4.. {2**62}*N", "0 0", True, None): "DIM_OUT_OF_RANGE data.dims[1]",
    (f"N:4.. {2**62}*N", None, True, None): "DIM_OUT_OF_RANGE data.dims[1]",
    (f"0 {2**62}*N N:4..", "0", True, None): "DIM_OUT_OF_RANGE data.dims[1]",
    ("?", f"{2**62}*N/2 N:4..", True, None): "DIM_OUT_OF_RANGE shape[0]",
    ("N*M", f"N:{2**32}.. M:{2**32}..", True, None): "DIM_OUT_OF_RANGE data.dims[0]",
    ("N*M:10.. N:0..2 M:0..2", "?", True, None): "SYMBOL_CONFLICT data.dims[0]",
    ("N:0..0 6/N", "?", True, None): "SYMBOL_CONFLICT data.dims[1]",
    ("N:0..2 2*N:6..", "?", True, None): "SYMBOL_CONFLICT data.dims[1]",  # N is 3 or more
    ("N:3..9 2*N:0..5", "?", True, None): "SYMBOL_CONFLICT data.dims[1]",  # N is 2 or less
    ("N:2..3 2*N:4..6", "N ?", True, None): "[N, 2*N]",
    (f"{2**62}*N", "0", True, None): f"[{2**62}*N]",  # N may be 0 or 1
    (f"{2**62}*N 2", "0 2", True, None): f"[{2**62}*N, 2]",
    (f"{2**62}*N/M M:8.. N:4..8", "0 0 0", True, None): f"[{2**62}*N/M, M, N]",
    # rule 5
    ("?", "-1 2", False, "2..3 2"): "[2..3, 2]",
    ("2 3", None, False, "? 3"): "[2, 3]",
    (None, None, False, "4 1..3"): "[4, 1..3]",
    ("? 3", "-1", False, "6"): "[6]",
    ("4", "2 -1", False, "N N"): "[2, 2]",
    ("4", "-1", True, "N:0..4"): "[4]",
    ("5", "-1", True, "N:0..4"): "EXPECTED_SHAPE_MISMATCH expected_shape.dims[0]",
    ("6", "2 -1", False, "N N"): "EXPECTED_SHAPE_MISMATCH expected_shape.dims[1]",  # one name, two dims
    ("2 6", "3 -1", False, "? 5"): "EXPECTED_SHAPE_MISMATCH expected_shape.dims[1]",
    ("2 6", "3 -1", False, "12"): "EXPECTED_SHAPE_MISMATCH expected_shape",
    ("?", "-1", False, "2 2"): "EXPECTED_SHAPE_MISMATCH expected_shape",
    ("1..3", "-1", False, "4"): "EXPECTED_SHAPE_MISMATCH expected_shape.dims[0]",
}


def test_reshape_infers_partial_shapes():
    found = {row: describe_answer(write_question(RESHAPE, *row)) for row in RESHAPE_ANSWERS}
    assert found == RESHAPE_ANSWERS


def test_symbol_used_as_a_divisor_is_not_zero():
    dims = infer(write_question(RESHAPE, "N 6/N", "0 0", True)).dims
    assert [find_bounds(dim) for dim in dims or ()] == [Interval(1, None), Interval(1, 6)]


def test_minus_one_that_divides_itself_is_not_zero():
    dims = infer(write_question(RESHAPE, "0..9", "N -1", True, "? N")).dims
    assert [find_bounds(dim) for dim in dims or ()] == [Interval(1, 3), Interval(1, 3)]


def test_query_with_maximum_rank_of_unknown_dims_is_answered():
    assert infer(write_question(RESHAPE, "? " * 64, "0 " * 63 + "-1", True)).dims == (None,) * 64
    divided = infer(write_question(STATIC_RESHAPE, "? " * 12, "0 " * 11 + "-1", True)).dims
    assert divided == (*[Dim(Interval(1, None))] * 11, None)


@pytest.mark.parametrize("expected", ["N 2*N", "7*N ?", "3 N**2", "4..3 ?", f"{'x' * 65} ?", "? ? ?", "N N"])
def test_execution_rejects_the_expected_shapes_that_a_query_rejects(expected: str):
    question = write_question(STATIC_RESHAPE, "2 3", "3 2", False, expected)
    with pytest.raises(InvalidRequestError) as asked:
        infer(question)
    assert is_known(question)
    with pytest.raises(InvalidRequestError) as executed:
        infer_shape(question)
    assert (executed.value.reason, executed.value.message) == (asked.value.reason, asked.value.message)


def test_unsupported_data_types_and_missing_special_zero_are_rejected():
    for operation, dim in product(EVERY, ("2", "?")):
        asked = {one: write_question(operation, dim, dim, True)._replace(data_type=one) for one in DataType}
        rejected = {one for one in DataType if describe_answer(asked[one]) == "DATA_TYPE_UNSUPPORTED data.data_type"}
        assert rejected == set(DataType) - operation.data_types, (operation, dim)
        assert describe_answer(write_question(operation, dim, "2", None)) == "SPECIAL_ZERO_MISSING special_zero"


# operation, the server's limit; the largest rank, and the error of a larger one
RANKS = [
    (STATIC_RESHAPE, 64, 12, "RANK_UNSUPPORTED"),
    (DYNAMIC_RESHAPE, 2, 12, "RANK_UNSUPPORTED"),  # does not depend on the server
    (RESHAPE, 64, 64, "RANK_LIMIT_EXCEEDED"),
    (RESHAPE, 2, 2, "RANK_LIMIT_EXCEEDED"),
]


def test_data_and_target_above_the_maximum_rank_are_rejected():
    for operation, max_rank, most, reason in RANKS:
        for dim in ("1 ", "? "):
            questions = [
                write_question(operation, dim * data, "1 " * target, False)
                for data, target in ((most, most), (most + 1, 1), (1, most + 1), (most + 1, most + 1))
            ]
            answered, *rejected = (describe_answer(question, Limits(max_rank=max_rank)) for question in questions)
            assert answered == format_dims([1] * most), (operation, max_rank)
            assert rejected == [f"{reason} data.dims", f"{reason} shape", f"{reason} data.dims"], (operation, max_rank)


# Each query breaks the rule of its reason and another rule. The conformance suite has no case for these.
ORDER: list[tuple[Question[tuple[int, ...]], str]] = [
    (Question(STATIC_RESHAPE, (), (), None, DataType.F64), "DATA_TYPE_UNSUPPORTED"),
    (Question(STATIC_RESHAPE, (-1,), (1,) * 13, False), "RANK_UNSUPPORTED"),
    (Question(RESHAPE, (-1,), (-2,) * 65, False), "RANK_LIMIT_EXCEEDED"),
]

# The same for partially known queries, which are checked in another order.
PARTIAL_ORDER: dict[tuple[str, str, bool | None, str | None], str] = {
    ("? -1", "1", None, None): "SPECIAL_ZERO_MISSING",
    ("N:1..2 N:4..5", "1", False, "-1"): "DIM_OUT_OF_RANGE",
    ("N:1..2 N:4..5", "-2", False, None): "SYMBOL_CONFLICT",
    ("N:1..2", "N:4..5 -2", False, None): "SYMBOL_CONFLICT",
    ("N:1..2", "-2 N:4..5", False, None): "INVALID_TARGET_VALUE",
    ("?", "0 -1 -2", False, None): "INVALID_TARGET_VALUE",
    ("?", "0 -1", False, "1"): "MINUS_ONE_WITH_ZERO_VOLUME",
    ("N", "M:0..0 -1 2*N N:7..6", False, "1"): "INTERVAL_EMPTY",
    ("N", f"M:0..0 -1 {2**62}*K K:4..5", False, "1"): "MINUS_ONE_WITH_ZERO_VOLUME",
    ("3 M:4..5", f"{2**62}*M", False, "1 1"): "DIM_OUT_OF_RANGE",
    ("3 M:4..5", f"{2**62}*M 2", False, "? 3"): "DIM_OUT_OF_RANGE",
    ("3..4", "7", False, "1 1"): "VOLUME_MISMATCH",
    ("3..4", "5 -1", False, "6 ?"): "NOT_DIVISIBLE",
    ("3..4", "1 -1", False, "6"): "EXPECTED_SHAPE_MISMATCH",
    ("2", "2", None, "-1"): "DIM_OUT_OF_RANGE",  # the expected dims of a known query are checked first
}


def test_error_reports_the_first_violated_rule():
    assert [describe_answer(question).split()[0] for question, _ in ORDER] == [reason for _, reason in ORDER]
    partial = {row: describe_answer(write_question(RESHAPE, *row)).split()[0] for row in PARTIAL_ORDER}
    assert partial == PARTIAL_ORDER


# data, target, expected
LIGHT = [
    ("2 3", "-1", None),
    ("2 3", "-1", "6"),
    ("N 12 64", "0 -1", None),
    ("N S 768", "-1 768", None),
    ("1..32 9 64", "0 -1 8", None),
    ("N S 768", "0 0 12 64", None),
    ("? 1..128 12 64", "0 0 -1", None),
    ("N 0 4", "0 -1", None),
]
HEAVY = [
    ("2 3", "?", None),
    ("N 4", "M 4", None),
    (None, "-1", None),
    ("2 3", None, None),
    ("N 4", "-1", "8"),
    ("N M", "8 -1", None),
]


def test_query_without_a_search_is_answered_immediately():
    begun = [begin_answer(ShapeRequest(write_question(RESHAPE, row[0], row[1], True, row[2]))) for row in LIGHT]
    assert [type(answer) for answer in begun] == [ShapeAnswer] * len(LIGHT)


def test_query_that_needs_a_search_is_deferred():
    for row in HEAVY:
        request = ShapeRequest(write_question(RESHAPE, row[0], row[1], True, row[2]))
        begun = begin_answer(request)
        assert isinstance(begun, Unsolved), row
        assert finish_answer(begun) == answer_question(request), row


@pytest.mark.parametrize("special_zero", [None, True])
def test_query_that_breaks_rule_1_is_rejected_immediately(special_zero: bool | None):
    question = write_question(RESHAPE, "? " * 65 if special_zero else "?", "?", special_zero)
    with pytest.raises(ReshapeError):
        begin_answer(ShapeRequest(question))


def test_target_shape_is_parsed_only_once():
    for data, target in [("6", "4 -1"), ("6", "-2"), ("N 4", "-1 ?")]:
        request = ShapeRequest(write_question(RESHAPE, data, target, True))
        with patch.object(inference, "read_target", wraps=read_target) as read:
            count_calls(lambda: answer_question(request))  # noqa: B023 - called at once
        assert read.call_count == 1, target


# data, target, expected of rejected queries; the number of searches
SEARCHES: list[tuple[str, str, str | None, int]] = [
    ("3..5 2", "1..2 2", None, 1),
    ("7 1..2", "-1 5 1..9", None, 1),
    (f"{2**62}..{2**62 + 9} 4 N:1..2", "-1 1..1", None, 2),  # a -1 that might be too large
    ("1..3 5", "-1 1..5", "4 3", 2),  # expected dims that exclude each other
    ("7 1..2", "-1 5 1..9", "7 ? ?", 2),
]


def test_rejected_query_takes_the_minimum_number_of_searches():
    for data, target, expected, searches in SEARCHES:
        request = ShapeRequest(write_question(RESHAPE, data, target, True, expected))
        with patch.object(inference, "solve", wraps=solve) as search, pytest.raises(InvalidRequestError):
            answer_question(request)
        assert search.call_count == searches, (data, target, expected)


def test_closed_form_solution_uses_no_budget_steps():
    budget = StepBudget()
    answer_question(ShapeRequest(write_question(RESHAPE, "N S 768", "-1 768", True)), budget=budget)
    assert budget.left == MAX_STEPS


def test_inference_result_has_an_explanation_only_if_requested():
    question = write_question(RESHAPE, "2 3", "-1", True)
    assert answer_question(ShapeRequest(question)) == ShapeAnswer((6,))
    answer = answer_question(ShapeRequest(question, explain=True))
    assert [origin.kind for origin in answer.origins] == [Kind.INFERRED]
    assert answer.groups == ((range(2), range(1)),)


@pytest.mark.parametrize("explain", [True, False])
def test_inference_error_is_explained_only_when_requested(explain: bool):
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(write_question(RESHAPE, "7", "2 -1", True), explain))
    assert ("accepted" in caught.value.metadata) is explain


Dims = tuple[int, ...]
WRONG = {"unsound", "incomplete conditions", "loose", "crashed"}


@examples(40)
@given(st.sampled_from(sorted(STYLES)), st.integers(0, 2**32))
def test_inferred_shapes_are_sound_and_tight(style: str, seed: int):
    random = Random(seed)
    for _ in range(20):
        question = choose_question(random, STYLES[style])
        request = ShapeRequest(question, True)
        outcomes, _, problem = prove(request, random)
        assert WRONG.isdisjoint(outcomes), f"{format_item(BatchItem(request))}: {problem}"
        assert "known items, conditions complete: False" not in outcomes, format_item(BatchItem(request))


operations = st.sampled_from(list(OPERATIONS.values()))
numbers = st.sampled_from([0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 12, 2**62, MAX])
unknown_dims = st.sampled_from([None, Dim(Interval(1, 3)), name_dim("U"), name_dim("V", 1, 4)])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[AnyQuestion, AnyQuestion]:
    """Draws a query, and the same query in which some numbers are ranges or names that have only one value."""
    values, special_zero = dict[str, int](), draw(st.booleans())

    def hide(dim: AnyDim, most: int = 3) -> AnyDim:
        kind = draw(st.integers(0, most)) if isinstance(dim, int) and dim >= 0 else 0
        if not isinstance(dim, int) or kind == 0:
            return dim
        name = draw(st.sampled_from("NMK"))
        value = values.setdefault(name, dim)
        if kind == 1 or bool(value) != bool(dim) or (value and dim % value):
            return Dim(Interval(dim, dim))
        if kind == 2:
            return name_dim(name, dim, dim) if value == dim else dim
        return Dim(ANY, make_expression(dim // value if value else 2, [Symbol(name, Interval(value, value))]))

    dims = numbers | numbers | unknown_dims
    data, target = draw(st.lists(dims, max_size=3)), draw(st.lists(st.just(-1) | dims, max_size=3))
    expected = draw(st.none() | st.tuples(*[dims for _ in target]))
    hidden = [dim if dim == 0 and special_zero else hide(dim) for dim in target]
    question: AnyQuestion = Question(draw(operations), data, target, special_zero, expected=expected)
    # The result may be wider if an expected dim is a product.
    wanted = None if expected is None else [hide(want, 2) for want in expected]
    return question, question._replace(data=[hide(dim) for dim in data], target=hidden, expected=wanted)


@examples(1000)
@given(pairs())
def test_rejection_has_the_same_reason_for_a_number_and_its_bounds(asked: tuple[AnyQuestion, AnyQuestion]):
    assert len({describe_rejection(question) for question in asked}) == 1


def describe_rejection(question: AnyQuestion) -> tuple[str, str] | None:
    """Returns the reason and the field of a rejection."""
    try:
        infer(question)
    except InvalidRequestError as error:
        return str(error.reason), error.field
    return None


small_dims = st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 4, 6]), max_size=5).map(tuple)
any_dims = small_dims | st.lists(st.sampled_from([0, 1, 2, 3, 2**31, 2**62, MAX]), max_size=12).map(tuple)
items = st.lists(st.sampled_from([-2, -1, -1, 0, 0, 1, 2, 3, 4, 6, 12, 2**63]), max_size=4).map(tuple)


@st.composite
def questions(draw: st.DrawFn, dims: st.SearchStrategy[Dims]) -> tuple[Dims, Dims]:
    """Draws data and a target made from it, so that many are accepted: regrouped dims, then copies and a -1."""
    data = draw(dims)
    target = list(draw(st.permutations(data)))
    for _ in range(draw(st.integers(0, 3))):
        if len(target) > 1:
            at = draw(st.integers(0, len(target) - 2))
            target[at : at + 2] = [target[at] * target[at + 1]]
    for at in draw(st.sets(st.integers(0, 11), max_size=3)):
        if at < len(target) and at < len(data):
            target[at] = draw(st.sampled_from([0, data[at], target[at]]))
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    return data, tuple(min(item, MAX) for item in target)


def answer_known(question: Question[Dims]) -> Dims | None:
    try:
        return infer_shape(question)
    except InvalidRequestError:
        return None


@examples(800)
@given(operations, questions(any_dims) | st.tuples(any_dims, items), st.booleans())
def test_queries_with_known_dims_agree_with_a_second_implementation(
    operation: Operation, asked: tuple[Dims, Dims], special_zero: bool
):
    question = Question(operation, *asked, special_zero)
    want = answer_concrete(question, asked[0], [(False, item) for item in asked[1]])
    told = ask(question)
    assert [answer_known(question), None if told is None else told.dims] == [want, want]


@examples(500)
@given(operations, questions(small_dims) | st.tuples(small_dims, small_dims))
def test_results_without_special_zero_agree_with_numpy(operation: Operation, asked: tuple[Dims, Dims]):
    data, target = asked
    try:
        shape = np.empty(data, np.uint8).reshape(target).shape
    except ValueError:
        shape = None
    assert answer_known(Question(operation, data, target, special_zero=False)) == shape
