"""The short way to an answer is the long one, where it is taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.partial import PartialQuestion, _infer_dims
from tensor_reshape.rules.plain import infer_plain
from tensor_reshape.rules.products import Search

LARGE = [100, 2**31, 2**62, 2**63 - 2, 2**63 - 1]
lows = st.sampled_from([0, 0, 1, 2, 5, 64, 2**62])
highs = st.sampled_from([None, 0, 1, 2, 7, 64, 2**62, 2**63 - 1])
bounds = st.builds(Interval, lows, highs).filter(lambda bound: not bound.is_empty)
numbers = st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 64, *LARGE])
names = st.builds(lambda name, bound: name_dim(name, *bound), st.sampled_from("NMKL"), bounds)
dims = st.one_of(numbers, st.none(), st.builds(Dim, bounds), names)
items = st.sampled_from([-1, -1, 0, 0, 0, 1, 2, 3, 4, 6, 12, 64, *LARGE])


@settings(max_examples=3000, deadline=None)
@given(
    st.sampled_from([STATIC_RESHAPE, RESHAPE]),
    st.lists(dims, max_size=4),
    st.lists(items, max_size=4),
    st.booleans(),
)
def test_a_plain_answer_is_that_of_the_rules_for_all_questions(
    operation: Operation, data: list[AnyDim], target: list[AnyDim], special_zero: bool
):
    plain = infer_plain(data, target, special_zero=special_zero, copies_cancel=operation.copies_cancel)
    if plain is None:
        return
    question = PartialQuestion(operation=operation, data=data, target=target, special_zero=special_zero)
    assert _infer_dims(question, Search()) == (plain, ())


def test_most_of_what_models_ask_is_plain():
    questions: list[tuple[list[AnyDim], list[AnyDim]]] = [
        ([8, 3, 224, 224], [0, -1]),
        ([name_dim("N"), name_dim("S"), 768], [0, 0, 12, 64]),
        ([name_dim("N"), name_dim("S"), 768], [-1, 768]),
        ([None, Dim(Interval(1, 128)), 12, 64], [0, 0, -1]),
        ([Dim(Interval(1, 32)), 9, 64], [0, -1, 8]),
    ]
    for data, target in questions:
        assert infer_plain(data, target, special_zero=True, copies_cancel=True) is not None


def test_a_refusal_is_never_plain():
    assert infer_plain([6], [4, -1], special_zero=False, copies_cancel=True) is None
    assert infer_plain([None], [2**63], special_zero=False, copies_cancel=True) is None
    assert infer_plain([-1], [-1], special_zero=False, copies_cancel=True) is None
    assert infer_plain([0, None], [0, -1], special_zero=True, copies_cancel=False) is None


def test_contradictions_are_left_to_the_long_way():
    question = PartialQuestion(
        operation=RESHAPE, data=[name_dim("N", 1, 2), name_dim("N", 5, 6)], target=[-1], special_zero=False
    )
    assert infer_plain(question.data or (), [-1], special_zero=False, copies_cancel=True) is None
    with pytest.raises(InvalidRequestError) as caught:
        _infer_dims(question, Search())
    assert caught.value.reason == Reason.SYMBOL_CONFLICT
