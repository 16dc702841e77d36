"""The origins and groups of output dims, and the values that a rejected query could use instead."""

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import accumulate, product
from math import prod
from operator import mul
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dense_questions import choose_dense
from hypothesis_profiles import examples
from strategies import SMALL_QUESTIONS
from tensor_reshape.rules.dims import (
    ANY,
    AnyDim,
    Dim,
    Expression,
    Interval,
    Symbol,
    find_bounds,
    format_dim,
    make_expression,
    name_dim,
)
from tensor_reshape.rules.errors import InvalidRequestError, ReshapeError
from tensor_reshape.rules.explanations import find_dim_groups, remove_bounds
from tensor_reshape.rules.inference import answer_question, infer_shape
from tensor_reshape.rules.notation import parse_dim
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import AnyQuestion, Kind, KnownQuestion, Origin, Question, ShapeRequest, is_known
from tests.oracles.contradictions import find_solution
from tests.oracles.shape_instances import ask
from written_questions import write_question


def explain(
    data: list[AnyDim] | None, target: list[AnyDim] | None, operation: Operation = RESHAPE
) -> tuple[Origin, ...]:
    question = Question(operation=operation, data=data, target=target, special_zero=True)
    return answer_question(ShapeRequest(question, explain=True)).origins


def reject(
    data: list[AnyDim] | None,
    target: list[AnyDim],
    operation: Operation = RESHAPE,
    *,
    special_zero: bool = True,
    expected: list[AnyDim] | None = None,
) -> ReshapeError:
    question = Question(operation=operation, data=data, target=target, special_zero=special_zero, expected=expected)
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(question, explain=True))
    return caught.value


def test_explanation_has_an_origin_for_every_target_item():
    origins = explain([3, 2, 2, 2, 4], [0, 2, -1, Dim(Interval(1, 1))])
    assert [origin.kind for origin in origins] == [Kind.COPIED, Kind.LITERAL, Kind.INFERRED, Kind.LENGTH]
    assert [origin.data_index for origin in origins] == [0, None, None, None]
    assert explain([3, 2], [None])[0].kind is Kind.UNKNOWN
    assert explain([2], None) == ()


@pytest.mark.parametrize(("operation", "parts"), [(RESHAPE, ("8", "2")), (STATIC_RESHAPE, ("24", "6"))], ids=str)
def test_explanation_of_a_minus_one_has_dividend_and_divisor(operation: Operation, parts: tuple[str, str]):
    origin = explain([3, 2, 4], [0, 2, -1], operation)[2]
    assert (origin.dividend, origin.divisor) == parts


def find_kind(item: AnyDim, *, special_zero: bool) -> Kind:
    if isinstance(item, int):
        return Kind.INFERRED if item == -1 else Kind.COPIED if item == 0 and special_zero else Kind.LITERAL
    return Kind.UNKNOWN if item is None else Kind.LENGTH


def test_origins_of_random_queries_follow_from_their_items():
    random = Random(2)
    for _ in range(1500):
        question = choose_dense(random)
        try:
            answer = answer_question(ShapeRequest(question, explain=True))
        except InvalidRequestError:
            continue
        kinds = [find_kind(item, special_zero=bool(question.special_zero)) for item in question.target or ()]
        assert [origin.kind for origin in answer.origins] == kinds, question
        for index, (origin, dim) in enumerate(zip(answer.origins, answer.dims or (), strict=True)):
            assert origin.data_index == (index if origin.kind is Kind.COPIED else None), question
            assert bool(origin.dividend) is bool(origin.divisor) is (origin.kind is Kind.INFERRED), question
            assert origin.text.startswith(f"shape[{index}] is "), question
            is_bounded = isinstance(dim, Dim) and dim.expression is not None and dim.bounds != ANY
            shown = f"{dim} ({Dim(find_bounds(dim))})" if is_bounded else format_dim(dim)
            assert shown in origin.text or origin.kind is Kind.LITERAL, question
            is_left_out = origin.kind is Kind.INFERRED and question.operation is RESHAPE and Kind.COPIED in kinds
            assert ("left out" in origin.text) is is_left_out, question
            if origin.dividend.isdecimal() and origin.divisor.isdecimal():
                assert int(origin.dividend) == int(origin.divisor) * find_bounds(dim).min, question


# data, target, special_zero, expected; rule, part of the accepted text
REJECTED: list[tuple[list[AnyDim] | None, list[AnyDim], bool, list[AnyDim] | None, str, str]] = [
    ([2], [-3], True, None, "2", "-1"),
    ([2], [1, 0], True, None, "2", "index below 1"),
    ([], [0], True, None, "2", "a size, because a scalar has no dimension to copy"),
    ([2], [-1, -1], True, None, "2", "one -1"),
    ([2, 3], [0, -1], False, None, "3", "divides 6, without a 0"),
    ([0, 3], [0, -1], False, None, "3", "a size in place of the -1"),
    (None, [0, -1], False, None, "3", "a size in place of the -1"),
    ([Dim(Interval(0, 0)), 3], [0, -1], False, None, "3", "a size in place of the -1"),
    ([24], [-1, 9], True, None, "3", "8 and 12"),
    ([24], [3, 5], True, None, "4", "24"),
    ([2, 3], [2, 0], False, None, "4", "3, or -1, for shape[1]"),
    ([24], [-1], True, [23], "5", "24, or an unknown dimension, for expected_shape.dims[0]"),
    ([24], [-1], True, [4, 6], "5", "[24], or a shape that includes it, for expected_shape"),
    ([Dim(Interval(3, 2))], [-1], True, None, "1", "order"),
    ([Dim(ANY, make_expression(0, [Symbol("N")]))], [-1], True, None, "1", "names"),
    ([name_dim("N", 1, 2)], [name_dim("N", 3)], True, None, "1", "in common"),
    ([2**63], [-1], True, None, "1", "2^63 - 1"),
    ([2**62, 2], [-1], True, None, "3", "2^63 - 1"),
    ([6], [-1, 40], True, None, "3", "divides 6: the nearest is 6"),
    ([1_000_003, 1_000_033], [-1, 5000], True, None, "3", "divides 1000036000099, such as 1 and 1000003"),
    ([1024, 768, 1024], [-1, 5000], True, None, "3", "the nearest are 4096 and 6144"),
]


def test_explained_error_has_rule_number_and_accepted_values():
    for data, target, special_zero, expected, rule, accepted in REJECTED:
        metadata = reject(data, target, special_zero=special_zero, expected=expected).metadata
        assert (metadata["rule"], accepted in metadata["accepted"]) == (rule, True), (data, target, metadata)


# data, target, special_zero, expected; the conditions and the bounds that contradict them
CONTRADICTIONS: dict[tuple[str, str | None, bool, str | None], str | None] = {
    ("n:1..2 4", "3 -1", True, None): "3 divides n, but n is 1..2",
    ("b:1..3 h:1..3", "5 7", True, None): "b*h = 35, but b is 1..3, h is 1..3",
    ("2..3 4", "16", True, None): "data[0] = 4, but data[0] is 2..3",
    ("5", "2 -1", True, None): None,
    ("n 2", "3", True, None): None,  # no bound is at fault
    # ranges of the requested shape, and unknown items
    ("5 6..7", "2 0..3", False, None): "5*data[1] = 2*shape[1], but data[1] is 6..7, shape[1] is 0..3",
    ("n:1..2 4", "3 ?", True, None): "3 divides n, but n is 1..2",
    # products
    ("k/3:4..5", "", True, None): "k = 3, but k/3 is 4..5",
    ("m*n:1..2", "3..", True, None): "m*n = shape[0], but m*n is 1..2, shape[0] is 3..",
    ("k/4 2", "3 k:5..9", True, None): "k = 0, but k/4 is an integer, k is 5..9",
    # an expected shape
    ("n:1..2 4", "0 4", True, "3 4"): "n = 3, but n is 1..2",
    ("n 5", "4 -1", True, "? 6"): "5*n = 4*expected_shape[1], but expected_shape[1] is 6",
    ("n:4..5", "-1 2", True, "m:0..1 ?"): "n = 2*m, but n is 4..5, m is 0..1",
    ("3..4 2", None, True, "2 2"): "data[0] = 2, but data[0] is 3..4",
    ("1..", None, True, "m/m:0..0"): None,
    # a number that is too large, a name whose bounds contradict each other, and a text that is too long
    (f"{2**61} n:8..", "-1 5", True, None): None,
    ("n:1..2 n:3..4", "5", True, None): None,
    (f"{'n' * 64}:1..2 {'m' * 64}:1..2 {'k' * 64}:1..2", "11", True, None): None,
}


def test_explained_error_names_conditions_and_the_bounds_that_contradict_them():
    found = {row: _explain_rejection(write_question(RESHAPE, *row)) for row in CONTRADICTIONS}
    assert found == CONTRADICTIONS


def _explain_rejection(question: AnyQuestion) -> str | None:
    """Returns the contradiction; None if there is none, or if the query is accepted."""
    try:
        answer_question(ShapeRequest(question, explain=True))
    except InvalidRequestError as error:
        return error.metadata.get("contradiction")
    return None


def test_values_of_a_false_contradiction_are_found():
    assert find_solution("2 divides data[1], but data[1] is 6..7") == {"data_1": 6}
    assert find_solution("M = 4 unless N = 0, but N/2 is an integer, M is 3..") == {"M": 3, "N": 0}
    assert find_solution("2 <= N/(2*M) <= 3, but M is 2") == {"M": 2, "N": 8}


@examples(400)
@given(SMALL_QUESTIONS)
def test_conditions_and_bounds_of_a_contradiction_have_no_solution(question: AnyQuestion):
    contradiction = _explain_rejection(question)
    if contradiction is not None:
        assert find_solution(contradiction) is None, contradiction


def test_contradiction_is_named_exactly_if_bounds_are_at_fault():
    random = Random(1)
    for _ in range(1500):
        question = choose_dense(random)
        if question.expected is None and question.target is not None and not is_known(question):
            is_rejected, contradiction = ask(question) is None, _explain_rejection(question)
            is_free = ask(remove_bounds(question)) is not None
            assert (contradiction is not None) is (is_rejected and is_free), (question, contradiction)


def test_contradiction_contains_an_expression_whose_names_cancel():
    four = Dim(Interval(0, 1), Expression(4, (Symbol("N"),), 1, (Symbol("N"),)))
    question = Question(STATIC_RESHAPE, [None, four], [four, -1, None], special_zero=False, expected=(4, None, None))
    assert ", but 4*N/N is 0..1" in str(_explain_rejection(question))


def test_error_message_lists_accepted_values_only_if_specific():
    rejected = reject([24], [-1, 9])
    assert rejected.message.endswith(f"; accepted: {rejected.metadata['accepted']}")
    assert "accepted" not in reject([2], [-3]).message


def test_explanation_of_a_division_names_copied_dims():
    questions: list[tuple[AnyDim, str, str]] = [(name_dim("N"), "N*7", "N*5"), (2, "14", "10")]
    for copied, dividend, divisor in questions:
        whole, rest = (reject([copied, 7], [0, 5, -1], operation).metadata for operation in (STATIC_RESHAPE, RESHAPE))
        assert (whole["dividend"], whole["divisor"]) == (dividend, divisor)
        assert (rest["dividend"], rest["divisor"]) == ("7", "5")  # without the copied dims, which leave both sides


SMALL_QUERIES: list[KnownQuestion] = [
    Question(operation, data, target, special_zero)
    for operation, special_zero, rank, count in product((STATIC_RESHAPE, RESHAPE), (False, True), range(3), range(1, 3))
    for data in product((0, 1, 2, 6), repeat=rank)
    for target in product((-1, 0, 2, 3), repeat=count)
]


def find_accepted(question: KnownQuestion, index: int, values: Iterable[int]) -> list[int]:
    """Returns the values with which the rules accept an item of the target."""
    target, found = list(question.target), []
    for target[index] in values:
        with suppress(InvalidRequestError):
            infer_shape(question._replace(target=target))
            found.append(target[index])
    return found


def find_hint(question: KnownQuestion) -> tuple[str, str]:
    """Returns the reason of a rejection and the accepted values; both are empty if the query is accepted."""
    try:
        answer_question(ShapeRequest(question, explain=True))
    except InvalidRequestError as error:
        return str(error.reason), error.metadata["accepted"]
    return "", ""


def test_volume_mismatch_suggests_the_only_lengths_that_are_accepted():
    pattern = re.compile(r"items whose product is (\d+)(?:: (?:(\d+), or )?-1,? for shape\[(\d+)\])?")
    for question in SMALL_QUERIES:
        reason, accepted = find_hint(question)
        if reason == "VOLUME_MISMATCH":
            found = pattern.fullmatch(accepted)
            assert found is not None, accepted
            volume, length, index = found.groups()
            assert int(volume) == prod(question.data), question
            inferred = [at for at in range(len(question.target)) if find_accepted(question, at, [-1])]
            assert inferred[:1] == ([] if index is None else [int(index)]), question
            if index is not None:
                lengths = find_accepted(question, int(index), range(1, 40))
                assert lengths == ([int(length)] if int(length or 0) else []), question
                assert length != "0" or find_accepted(question, int(index), [0]), question


def test_suggested_length_of_a_large_volume_is_a_valid_dim():
    for data, target, told in (
        ((2**40, 2**20), (2**30, 2**29), f": {2**31}, or -1, for shape[0]"),
        ((2**40, 2**40), (2**18, 2), f": {2**62}, or -1, for shape[1]"),
        ((2**40, 2**40), (2**16, 1), ""),
    ):
        question: KnownQuestion = Question(RESHAPE, data, target, special_zero=False)
        assert find_hint(question)[1] == f"items whose product is {prod(data)}{told}"


def test_remainder_suggests_the_nearest_divisors():
    pattern = re.compile(r"other items whose product divides \d+: the nearest (?:is|are) (\d+)(?: and (\d+))?")
    for volume, near in product(range(1, 25), repeat=2):
        question = Question(RESHAPE, (volume,), (-1, near), special_zero=False)
        if volume % near:
            found = pattern.fullmatch(find_hint(question)[1])
            assert found is not None
            accepted = find_accepted(question, 1, range(1, volume + 1))
            below, above = ([one for one in accepted if (one > near) is larger] for larger in (False, True))
            assert [int(one) for one in found.groups() if one is not None] == [*below[-1:], *above[:1]], question


def test_other_suggestions_are_accepted():
    for question in SMALL_QUERIES:
        reason, accepted = find_hint(question)
        if reason == "MINUS_ONE_WITH_ZERO_VOLUME":
            ones = [item or 1 for item in question.target]
            assert infer_shape(question._replace(target=ones)), question
            volume = prod(question.data)
            told = f"product divides {volume}, without a 0" if volume else "without a 0, or a size in place of the -1"
            assert accepted.endswith(told), question
        if reason == "COPY_INDEX_OUT_OF_RANGE":
            rank = len(question.data)
            told = (
                f"a 0 at an index below {rank}, or a size"
                if rank
                else "a size, because a scalar has no dimension to copy"
            )
            assert accepted == told, question


def test_suggested_expected_dim_is_that_of_the_output():
    shapes = [(2, 3), (6,)], [(-1,), (3, -1), (1, 6)], list(product((None, 1, 2, 3, 6), repeat=2))
    for data, target, expected in product(*shapes):
        question = Question(RESHAPE, data, target, special_zero=False)
        output = infer_shape(question)
        wrong = [at for at, (have, want) in enumerate(zip(output, expected, strict=False)) if want not in {None, have}]
        told = f"{[*output]}, or a shape that includes it, for expected_shape"
        if len(output) == len(expected):
            told = f"{output[wrong[0]]}, or an unknown dimension, for expected_shape.dims[{wrong[0]}]" if wrong else ""
        assert find_hint(question._replace(expected=expected))[1] == told, (question, expected)


def test_explanation_text_length_is_limited_for_long_queries():
    long: list[AnyDim] = [
        Dim(ANY, make_expression(2**63 - 1, [Symbol(f"{index}" * 32) for index in range(10, 42)])) for _ in range(4)
    ]
    targets: list[list[AnyDim]] = [[0] * 4, [None] * 4, long, [*long[:-1], -1]]
    lengths = [
        len(text)
        for target in targets
        for origin in explain(long, target)
        for text in (origin.text, origin.dividend, origin.divisor)
    ]
    assert max(lengths) <= 192


def find_groups(data: str, output: str, copied: tuple[int, ...] = ()) -> str:
    """Returns the groups as text: `0,1>0` if the first two data dims become the first output dim."""
    left, right = ([parse_dim(dim) for dim in text.split(",") if dim] for text in (data, output))
    return " ".join(f"{_join(group.data)}>{_join(group.output)}" for group in find_dim_groups(left, right, copied))


def _join(indices: range) -> str:
    return ",".join(map(str, indices))


# data, output; groups
GROUPS = {
    ("2,3,4", "6,4"): "0,1>0 2>1",
    ("2,3,4", "2,12"): "0>0 1,2>1",
    ("24", "2,3,4"): "0>0,1,2",
    ("4,6", "6,4"): "0,1>0,1",
    ("N,S,768", "N,S,12,64"): "0>0 1>1 2>2,3",
    ("N,S,768", "N*S,768"): "0,1>0 2>1",
    ("N,4", "N/2,8"): "0,1>0,1",
    ("N/2,8,3", "4*N,3"): "0,1>0 2>1",
    ("2..8,4,3", "8..32,3"): "0,1>0 2>1",
    ("?,4", "?,4"): "0>0 1>1",
    ("5,?,4", "5,?,2,2"): "0>0 1>1 2>2,3",
    ("0,3", "5,0"): "0,1>0,1",
    ("2,1,3", "2,3"): "0>0 1,2>1",
    ("1,1,1,6", "1,1,1,6"): "0>0 1>1 2>2 3>3",
    ("2,1,1,1,6", "2,1,1,1,2,3"): "0>0 1>1 2>2 3>3 4>4,5",
    ("6", "6,1"): "0>0,1",
    ("6,1", "6"): "0,1>0",
    ("", "1,1"): ">0,1",
    ("1", ""): "0>",
    ("", ""): ">",
}


def test_adjacent_dims_with_equal_products_form_a_group():
    assert {row: find_groups(*row) for row in GROUPS} == GROUPS
    # A copy equals the data dim even if it is unknown.
    assert find_groups("?,?,?", "?,?", (0,)) == "0>0 1,2>1"


small_numbers = st.lists(st.integers(0, 6), min_size=1, max_size=6)
dims: st.SearchStrategy[AnyDim] = st.sampled_from(
    [*map(parse_dim, ["0", "1", "2", "6", "?", "N", "N/2", "2*N", "2..8"])]
)


@given(st.lists(dims, max_size=64), st.lists(dims, max_size=64), st.sets(st.integers(0, 63)))
def test_dim_groups_cover_every_input_and_output_dim_in_order(
    data: list[AnyDim], output: list[AnyDim], copied: set[int]
):
    groups = find_dim_groups(data, output, {index for index in copied if index < min(len(data), len(output))})
    assert [index for group in groups for index in group.data] == [*range(len(data))]
    assert [index for group in groups for index in group.output] == [*range(len(output))]
    assert all(group.data for group in groups) or not data
    assert all(group.output for group in groups) or not output


@given(small_numbers, st.data())
def test_grouped_input_and_output_dims_have_equal_products(data: list[int], draw: st.DataObject):
    output = draw.draw(st.permutations(data))
    for group in find_dim_groups(data, output, ()):
        assert prod(data[index] for index in group.data) == prod(output[index] for index in group.output)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=8), st.data())
def test_dims_are_split_into_as_many_groups_as_possible(data: list[int], draw: st.DataObject):
    output = list(data)
    for _ in range(draw.draw(st.integers(0, 4))):  # joins neighbours, then maybe moves the dims
        if len(output) > 1:
            at = draw.draw(st.integers(0, len(output) - 2))
            output[at : at + 2] = [output[at] * output[at + 1]]
    output = draw.draw(st.just(output) | st.permutations(output))
    ends = {*accumulate(data, mul)} & {*accumulate(output, mul)}  # without dims of 1, each product belongs to one end
    assert len(find_dim_groups(data, output, ())) == len(ends)
