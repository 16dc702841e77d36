"""Where numpy's rule is the same, numpy answers the same: the same shape, or both refuse."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.rules.questions import Question

Dims = tuple[int, ...]

factors = st.sampled_from([1, 1, 2, 2, 3, 4, 6])


@st.composite
def targets(draw: st.DrawFn) -> tuple[Dims, Dims]:
    """Data, and the dims of it regrouped, or any dims; at most one -1, and no 0 that numpy and the rules read apart."""
    data = tuple(draw(st.lists(factors, max_size=5)))
    target = list(draw(st.permutations(data)))
    while draw(st.booleans()) and len(target) > 1:
        at = draw(st.integers(0, len(target) - 2))
        target[at : at + 2] = [target[at] * target[at + 1]]
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


def ask_rules(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims | None:
    try:
        return infer_shape(Question(operation=operation, data=data, target=target, special_zero=special_zero))
    except InvalidRequestError:
        return None


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(list(OPERATIONS.values())), targets(), st.booleans())
def test_full_data_has_numpys_answer(operation: Operation, question: tuple[Dims, Dims], special_zero: bool):
    assert ask_rules(operation, *question, special_zero) == ask_numpy(*question)


@settings(deadline=None)
@given(
    st.sampled_from(list(OPERATIONS.values())),
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
    st.lists(st.integers(0, 3), max_size=4).map(tuple),
)
@example(next(iter(OPERATIONS.values())), (0,), (3, 0))
def test_a_literal_zero_without_a_minus_one_has_numpys_answer(operation: Operation, data: Dims, target: Dims):
    assert ask_rules(operation, data, target, special_zero=False) == ask_numpy(data, target)


@pytest.mark.parametrize(
    ("data", "target"), [((0, 3), (-1,)), ((0, 3), (3, -1)), ((2, 0), (-1, 5)), ((3, 0), (-1, 1, 7))], ids=str
)
def test_empty_data_with_a_minus_one_beside_full_dims_has_numpys_answer(data: Dims, target: Dims):
    for operation in OPERATIONS.values():
        assert ask_rules(operation, data, target, special_zero=False) == ask_numpy(data, target) is not None


@pytest.mark.parametrize("target", [(-2,), (-3, 2), (2, -(2**63))], ids=str)
def test_a_negative_item_that_numpy_would_infer_is_refused(target: Dims):
    for operation in OPERATIONS.values():
        assert ask_rules(operation, (6,), target, special_zero=False) is None
