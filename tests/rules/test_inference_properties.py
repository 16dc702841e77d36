"""Inference in part against brute force, and against the rules for what is known."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from verification.proofs import prove
from verification.small import STYLES, choose_question
from verification.wide import Wide

from round_trips import format_item
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import are_known
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.operations import OPERATIONS
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest

WRONG = {"unsound", "loose", "crashed"}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(STYLES)), st.integers(0, 2**32))
def test_every_answer_and_every_view_is_sound_and_tight(style: str, seed: int):
    random = Random(seed)
    for _ in range(20):
        question = choose_question(random, STYLES[style])
        rank = 2 if question.data is None else len(question.data)
        request = ShapeRequest(question, True, Wide(random).choose_strides(question.data, rank))
        outcome, _, problem = prove(request, random)
        assert outcome not in WRONG, f"{format_item(BatchItem(request))}: {problem}"


known = st.lists(st.sampled_from([0, 1, 2, 3, 4, 6, 12, 2**62]), max_size=4)
items = st.lists(st.sampled_from([-2, -1, -1, 0, 0, 1, 2, 3, 4, 6, 12, 2**63]), max_size=4)


def infer_known(question: AnyQuestion) -> object:
    assert are_known(question.data)
    assert are_known(question.target)
    try:
        return infer_shape(
            Question(
                operation=question.operation,
                data=question.data,
                target=question.target,
                special_zero=question.special_zero,
            )
        )
    except InvalidRequestError as error:
        return error.message, error.reason, error.field, error.metadata


def infer_in_part(question: AnyQuestion) -> object:
    try:
        return infer(question).dims
    except InvalidRequestError as error:
        return error.message, error.reason, error.field, error.metadata


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(OPERATIONS)), known, items, st.booleans())
def test_what_is_known_is_answered_by_the_rules_for_it(
    operation: str, data: list[int], target: list[int], special_zero: bool
):
    question = Question(operation=OPERATIONS[operation], data=data, target=target, special_zero=special_zero)
    assert infer_in_part(question) == infer_known(question)
