"""Views, against what numpy can do without a copy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.core.dims import name_dim
from tensor_reshape.core.operations import RESHAPE
from tensor_reshape.core.partial import PartialQuestion, infer_partial
from tensor_reshape.core.views import View, ViewPossibility, compute_view_strides, infer_view

Dims = tuple[int, ...]
small = st.lists(st.sampled_from([1, 1, 2, 2, 3, 4]), max_size=4).map(tuple)


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    """Draws strided arrays of at most four dims: dense, transposed, with gaps, and broadcast."""
    dims = draw(small)
    whole = np.arange(np.prod([dim * 2 for dim in dims], dtype=int)).reshape([dim * 2 for dim in dims])
    steps = tuple(draw(st.sampled_from([slice(0, dim), slice(0, dim * 2, 2)])) for dim in dims)
    array = whole[*steps, ...] if draw(st.booleans()) else np.arange(np.prod(dims, dtype=int)).reshape(dims)
    array = array.transpose(draw(st.permutations(range(len(dims)))))
    broadcast = draw(st.sampled_from([None, 1, 2, 3]))
    return array if broadcast is None else np.broadcast_to(array, (broadcast, *array.shape))


@st.composite
def outputs(draw: st.DrawFn, volume: int) -> Dims:
    dims = []
    for _ in range(draw(st.integers(0, 4))):
        dims.append(draw(st.sampled_from([value for value in range(1, volume + 1) if volume % value == 0])))
        volume //= dims[-1]
    return (*dims, volume)


def view_in_numpy(array: np.ndarray, output: Dims) -> np.ndarray | None:
    view = array.view()
    try:
        view.shape = output
    except AttributeError:
        return None
    return view


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_view_is_possible_where_numpy_makes_one(data: st.DataObject):
    array = data.draw(arrays())
    output = data.draw(outputs(array.size))
    strides = compute_view_strides(array.shape, [stride // array.itemsize for stride in array.strides], output)
    assert (strides is None) == (view_in_numpy(array, output) is None)


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_view_has_the_elements_of_the_reshaped_array(data: st.DataObject):
    array = data.draw(arrays())
    output = data.draw(outputs(array.size))
    strides = compute_view_strides(array.shape, [stride // array.itemsize for stride in array.strides], output)
    if strides is not None:
        view = np.lib.stride_tricks.as_strided(array, output, [stride * array.itemsize for stride in strides])
        assert view.tolist() == array.reshape(output).tolist()


@pytest.mark.parametrize("output", [(0,), (3, 0), (0, 5, 7)], ids=str)
def test_an_empty_tensor_is_always_a_view(output: Dims):
    strides = compute_view_strides((2, 0, 3), (1, 2, 2), output)
    assert strides is not None
    assert len(strides) == len(output)


def ask(question: PartialQuestion, strides: Dims) -> View:
    return infer_view(question, strides, infer_partial(question).dims)


def test_a_known_view_has_strides():
    question = PartialQuestion(operation=RESHAPE, data=[2, 3], target=[-1], special_zero=False)
    assert ask(question, (3, 1)) == View(ViewPossibility.POSSIBLE, (1,))


def test_a_transposed_tensor_is_no_view_when_flattened():
    question = PartialQuestion(operation=RESHAPE, data=[2, 3], target=[-1], special_zero=False)
    assert ask(question, (1, 2)) == View(ViewPossibility.IMPOSSIBLE)


def test_a_copied_batch_does_not_keep_from_a_view():
    question = PartialQuestion(operation=RESHAPE, data=[name_dim("N"), 2, 3], target=[0, -1], special_zero=True)
    assert ask(question, (6, 3, 1)).possibility is ViewPossibility.POSSIBLE


def test_an_unknown_rank_leaves_a_view_unknown():
    question = PartialQuestion(operation=RESHAPE, data=None, target=[-1], special_zero=False)
    assert ask(question, (1,)) == View(ViewPossibility.UNKNOWN)
