"""Inference against brute force and numpy, and what is true of every output."""

from math import prod
from random import Random

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import KnownQuestion, Question, ShapeRequest
from tests.oracles.round_trips import format_item
from verification.prove.proofs import prove
from verification.prove.small_questions import STYLES, choose_question
from verification.prove.wide_questions import Wide

Dims = tuple[int, ...]
MAX = 2**63 - 1
WRONG = {"unsound", "loose", "crashed"}
EVERY = list(OPERATIONS.values())


@examples(100)
@given(st.sampled_from(sorted(STYLES)), st.integers(0, 2**32))
def test_every_answer_and_every_view_is_sound_and_tight(style: str, seed: int):
    random = Random(seed)
    for _ in range(20):
        question = choose_question(random, STYLES[style])
        rank = 2 if question.data is None else len(question.data)
        request = ShapeRequest(question, True, Wide(random).choose_strides(question.data, rank))
        outcome, _, problem = prove(request, random)
        assert outcome not in WRONG, f"{format_item(BatchItem(request))}: {problem}"


operations = st.sampled_from(EVERY)
small_dims = st.lists(st.integers(0, 4), max_size=5).map(tuple)
any_dims = small_dims | st.lists(st.sampled_from([0, 1, 2, 3, 2**31, 2**62, MAX]), max_size=12).map(tuple)
items = st.lists(st.sampled_from([-2, -1, -1, 0, 0, 1, 2, 3, 4, 6, 12, 2**63]), max_size=4).map(tuple)


def answer(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims | None:
    try:
        return infer_shape(Question(operation, data, target, special_zero))
    except InvalidRequestError:
        return None


def regroup(draw: st.DrawFn, dims: Dims, most: int) -> list[int]:
    """Permutes dims, and joins neighbours now and then."""
    target = list(draw(st.permutations(dims)))
    for _ in range(draw(st.integers(0, most))):
        if len(target) > 1:
            at = draw(st.integers(0, len(target) - 2))
            target[at : at + 2] = [target[at] * target[at + 1]]
    return target


@st.composite
def questions(draw: st.DrawFn) -> tuple[Dims, Dims, bool]:
    """Data with a target made from it, so that a fair share is admitted: regrouped dims, then copies and a -1."""
    data = draw(any_dims)
    target = regroup(draw, data, 2)
    for at in draw(st.sets(st.integers(0, 11), max_size=3)):
        if at < len(target) and at < len(data):
            target[at] = draw(st.sampled_from([0, data[at], target[at]]))
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    return data, tuple(min(item, MAX) for item in target), draw(st.booleans())


@examples(200)
@given(operations, questions())
def test_an_output_keeps_the_items_the_copies_and_the_volume(operation: Operation, question: tuple[Dims, Dims, bool]):
    data, target, special_zero = question
    output = answer(operation, *question)
    if output is None:
        return
    wanted = [data[at] if item == 0 and special_zero else item for at, item in enumerate(target)]
    assert all(want in {have, -1} for have, want in zip(output, wanted, strict=True))
    assert prod(output) == prod(data)
    assert answer(operation, data, output, special_zero=False) == output


@given(operations, any_dims, small_dims, items)
def test_copies_flattening_and_special_zero_mean_what_they_say(
    operation: Operation, data: Dims, small: Dims, target: Dims
):
    assert answer(operation, data, (0,) * len(data), special_zero=True) == data
    assert answer(operation, small, (-1,), special_zero=False) == (prod(small),)
    without_zeros = tuple(item or 1 for item in target)
    copies = answer(operation, small, without_zeros, special_zero=True)
    assert copies == answer(operation, small, without_zeros, special_zero=False)


@given(questions())
def test_operations_agree_unless_a_dim_of_0_is_copied_beside_a_minus_one(question: tuple[Dims, Dims, bool]):
    data, target, special_zero = question
    static = answer(STATIC_RESHAPE, *question)
    assert answer(DYNAMIC_RESHAPE, *question) == static
    copies_zero = special_zero and any(item == 0 for item, dim in zip(target, data, strict=False) if dim == 0)
    if not (copies_zero and -1 in target):
        assert answer(RESHAPE, *question) == static


def describe(question: KnownQuestion, *, in_part: bool) -> object:
    try:
        return infer(question).dims if in_part else infer_shape(question)
    except InvalidRequestError as error:
        return error.message, error.reason, error.field, error.metadata


@examples(500)
@given(
    operations, st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 12, 2**62]), max_size=4).map(tuple), items, st.booleans()
)
def test_known_questions_have_one_answer(operation: Operation, data: Dims, target: Dims, special_zero: bool):
    question = Question(operation, data, target, special_zero)
    assert describe(question, in_part=True) == describe(question, in_part=False)


factors = st.sampled_from([1, 1, 2, 2, 3, 4, 6])


@st.composite
def targets(draw: st.DrawFn) -> tuple[Dims, Dims]:
    """Data, and the dims of it regrouped, or any dims; at most one -1, and no 0 that numpy and the rules read apart."""
    data = tuple(draw(st.lists(factors, max_size=5)))
    target = regroup(draw, data, 4)
    if draw(st.integers(0, 3)) == 0:
        target = draw(st.lists(factors, max_size=5))
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    return data, tuple(target)


def ask_numpy(data: Dims, target: Dims) -> Dims | None:
    try:
        return np.empty(data, np.uint8).reshape(target).shape
    except ValueError:
        return None


@examples(400)
@given(operations, targets(), st.booleans())
def test_full_data_has_the_answer_of_numpy(operation: Operation, question: tuple[Dims, Dims], special_zero: bool):
    assert answer(operation, *question, special_zero) == ask_numpy(*question)


tiny = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@given(operations, tiny, tiny)
@example(STATIC_RESHAPE, (0,), (3, 0))
def test_literal_zeros_without_a_minus_one_have_the_answer_of_numpy(operation: Operation, data: Dims, target: Dims):
    assert answer(operation, data, target, special_zero=False) == ask_numpy(data, target)


def test_empty_data_with_a_minus_one_has_the_answer_of_numpy():
    for data, target in [((0, 3), (-1,)), ((0, 3), (3, -1)), ((2, 0), (-1, 5)), ((3, 0), (-1, 1, 7))]:
        wanted = ask_numpy(data, target)
        assert wanted is not None
        assert {answer(one, data, target, special_zero=False) for one in EVERY} == {wanted}, (data, target)
