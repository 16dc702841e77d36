"""The costs of queries and batches, counted in calls: no bytes of a request cause more work than others."""

from collections.abc import Sequence
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from hypothesis_profiles import examples
from meters import count_calls
from tensor_reshape.rules.batches import ITEM_STEPS, RESERVE_STEPS, BatchItem, answer_batch
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, find_bounds, make_expression, name_dim
from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question, begin_answer
from tensor_reshape.rules.limits import MAX_STEPS, StepBudget
from tensor_reshape.rules.operations import OPERATIONS, RESHAPE
from tensor_reshape.rules.products import Product
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from tensor_reshape.rules.solvers.equations import Range
from tensor_reshape.rules.solvers.propagation import narrow_ranges
from verification.prove import STYLES, choose_question, choose_request

MOST_CALLS = 16 * MAX_STEPS
"""Limit of any single query: some milliseconds."""


def ask(
    data: Sequence[AnyDim] | None, shape: Sequence[AnyDim] | None, expected: Sequence[AnyDim] | None = None
) -> ShapeRequest:
    return ShapeRequest(Question(RESHAPE, data, shape, special_zero=True, expected=expected))


def spread(low: int, high: int) -> Dim:
    return Dim(Interval(low, high))


def multiply(names: str, coefficient: int = 1, divisor: int = 1) -> Dim:
    return Dim(ANY, make_expression(coefficient, [Symbol(name) for name in names], divisor))


HARD = ask([spread(2, 97 + index) for index in range(6)], [spread(3, 91)] * 6)
POWERS = ask(
    [multiply("d" * 64, 2, 3), spread(3, 12), multiply("bb", 2119433473400577950, 2**40)],
    [multiply("eh", 2**61 - 1), -1, None],
)
QUESTIONS: dict[str, ShapeRequest] = {
    "a search that does not end": HARD,
    "high powers": POWERS,
    "64 unknown dims into 64 unknown items": ask([None] * 64, [None] * 64),
    "copies of 0": ask([spread(0, 97 + index) for index in range(64)], [*[None] * 3, *[spread(2, 90)] * 60, -1]),
    "256 symbols": ask(
        [None, None, None, *[multiply("".join(map(chr, range(first, first + 64)))) for first in (256, 320)]],
        [None, None, None, *[multiply("".join(map(chr, range(first, first + 63)))) for first in (384, 448)], -1],
    ),
    "an unknown target": ask([name_dim(f"n{index}") for index in range(64)], None, expected=[spread(2, 90)] * 64),
    "a rejection": ask([spread(2, 70)] * 5, [101, None, None, spread(2, 9)], expected=[101, spread(3, 5), 1, 2]),
}


@pytest.mark.parametrize("explain", [False, True], ids=["alone", "explained"])
def test_hard_query_takes_a_limited_number_of_function_calls(explain: bool):
    for name, request in QUESTIONS.items():
        calls = count_calls(lambda: answer_question(request._replace(explain=explain)))  # noqa: B023 - called at once
        assert calls <= MOST_CALLS, name


bounds = st.sampled_from([(0, None), (0, 9), (1, 97), (2, 2**31), (3, 2**40 + 15), (2**20, 2**61)])
intervals = bounds.map(lambda pair: Dim(Interval(*pair)))
numbers = st.sampled_from([0, 1, 2, 3, 7, 101, 2**31 - 1, 2**61 - 1, 2**63 - 1])
coefficients = st.sampled_from([1, 2, 3, 2**40, 2**61 - 1, 2**63 - 1])
products = st.builds(multiply, st.text("abcdefgh", min_size=1, max_size=64), coefficients, coefficients)
dims = st.one_of(intervals, intervals, numbers, products, st.none())
shapes = st.lists(dims, max_size=12) | st.lists(intervals | st.none(), min_size=50, max_size=64)
items = st.lists(st.one_of(dims, st.just(-1), st.just(0)), max_size=12) | shapes


@examples(150)
@given(st.sampled_from(sorted(OPERATIONS)), shapes | st.none(), items, st.booleans(), st.none() | shapes, st.booleans())
def test_random_queries_take_a_limited_number_of_function_calls(
    operation: str,
    data: list[AnyDim] | None,
    shape: list[AnyDim],
    special_zero: bool,
    expected: list[AnyDim] | None,
    explain: bool,
):
    question = Question(OPERATIONS[operation], data, shape, special_zero, expected=expected)
    calls = count_calls(lambda: answer_question(ShapeRequest(question, explain)))
    target(float(calls))
    assert calls <= MOST_CALLS


# style; the steps of its first queries, and how many of these queries are answered without a search
STEPS = {
    "plain": (3042, 66),
    "bounded": (4441, 58),
    "high rank": (4085, 48),
    "symbols": (2644, 51),
    "repeated symbols": (1249, 64),
    "expressions": (4887, 39),
    "unknown items": (13095, 34),
    "expected": (4979, 24),
    "unknown rank": (3750, 0),
}


def test_random_queries_take_as_many_steps_as_recorded():
    found = {}
    for name, style in STYLES.items():
        random, steps, immediate = Random(name), 0, 0
        for _ in range(300):
            request, budget = ShapeRequest(choose_question(random, style)), StepBudget()
            with suppress(ReshapeError):
                immediate += isinstance(begin_answer(request), ShapeAnswer)
                answer_question(request, budget=budget)
            steps += MAX_STEPS - budget.left
        found[name] = steps, immediate
    assert found == STEPS


def count_batch(items: Sequence[BatchItem]) -> int:
    return count_calls(lambda: list(answer_batch(items)))


def test_batch_items_share_one_step_budget():
    budget = StepBudget()
    answer_question(HARD, budget=budget)
    affordable = RESERVE_STEPS // (MAX_STEPS - budget.left - ITEM_STEPS)
    once = count_calls(lambda: answer_question(HARD))
    few, many = (count_batch([BatchItem(HARD)] * count) for count in (affordable, 8 * affordable))
    assert few > affordable * once / 2
    assert many < 3 * few


def test_range_narrowing_of_high_powers_uses_fewer_calls():
    calls = []
    for power in (2, 64):
        equation = Product(3, (0,) * power, 5, (1,) * power)
        ranges = [Range(2, 2**40), Range(3, 2**39)]
        calls.append(count_calls(lambda: narrow_ranges(ranges, equation, [0, 1])))  # noqa: B023 - called at once
    assert 4 * calls[1] < calls[0]


def test_exhausted_step_budget_gives_wider_but_sound_results():
    tight = answer_question(HARD).dims or ()
    *_, last = answer_batch([BatchItem(HARD)] * 200)
    assert isinstance(last, ShapeAnswer)
    for wide, narrow in zip(last.dims or (), tight, strict=True):
        assert find_bounds(wide).meet(find_bounds(narrow)) == find_bounds(narrow)


def describe(answer: ShapeAnswer | ReshapeError) -> object:
    return answer if isinstance(answer, ShapeAnswer) else (answer.reason, answer.message)


def answer_alone(request: ShapeRequest) -> ShapeAnswer | ReshapeError:
    try:
        return answer_question(request)
    except ReshapeError as error:
        return error


def test_typical_batch_never_exhausts_its_step_budget():
    random = Random(1)
    requests = [choose_request(random)[1] for _ in range(4000)]
    together = map(describe, answer_batch(map(BatchItem, requests)))
    assert list(together) == [describe(answer_alone(request)) for request in requests]


def link(shape: Sequence[AnyDim], data_from: int) -> BatchItem:
    return BatchItem(ask(None, shape), data_from)


LARGE = BatchItem(ask([multiply("abcd", 3)] * 64, [0] * 64))


def test_outputs_of_linked_batch_items_count_toward_its_limit():
    answers = list(answer_batch([LARGE, *[link([0] * 64, 0)] * 200]))
    rejected = [answer for answer in answers if isinstance(answer, LimitError)]
    assert {answer.reason for answer in rejected} == {Reason.BATCH_TOO_LARGE}
    # The batch has 1024 * 64 steps, and 64 more for each item. A link to 64 dims with 4 symbols each takes 2560 steps.
    assert [isinstance(answer, ShapeAnswer) for answer in answers[:28]] == [*[True] * 27, False]
    assert len(rejected) == 174
    few, many = (count_batch([LARGE, *[link([0] * 64, 0)] * count]) for count in (100, 1000))
    assert many < 5 * few


def test_typical_chain_of_linked_queries_is_not_rejected():
    names = [name_dim(f"n{index}") for index in range(4)]
    chain = [BatchItem(ask([*names, *range(1, 9)], [*names, *range(8, 0, -1)]))]
    chain += [link([0] * 12, index) for index in range(5000)]
    assert not any(isinstance(answer, ReshapeError) for answer in answer_batch(chain))
