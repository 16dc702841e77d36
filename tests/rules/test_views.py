"""Views, against what numpy can do without a copy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest
from tensor_reshape.rules.views import View, ViewPossibility
from written_questions import write_question

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


def ask(question: AnyQuestion, strides: Dims) -> View:
    view = answer_question(ShapeRequest(question, strides=strides)).view
    assert view is not None
    return view


def ask_known(array: np.ndarray, output: Dims) -> View:
    question = Question(operation=RESHAPE, data=array.shape, target=output, special_zero=False)
    return ask(question, tuple(stride // array.itemsize for stride in array.strides))


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_view_is_possible_where_numpy_makes_one(data: st.DataObject):
    array = data.draw(arrays())
    output = data.draw(outputs(array.size))
    possible = view_in_numpy(array, output) is not None
    assert ask_known(array, output).possibility is (
        ViewPossibility.POSSIBLE if possible else ViewPossibility.IMPOSSIBLE
    )


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_view_has_the_elements_of_the_reshaped_array(data: st.DataObject):
    array = data.draw(arrays())
    output = data.draw(outputs(array.size))
    strides = ask_known(array, output).strides
    if strides is not None:
        view = np.lib.stride_tricks.as_strided(array, output, [stride * array.itemsize for stride in strides])
        assert view.tolist() == array.reshape(output).tolist()


@pytest.mark.parametrize("output", [(0,), (3, 0), (0, 5, 7)], ids=str)
def test_an_empty_tensor_is_always_a_view(output: Dims):
    question = Question(operation=RESHAPE, data=(2, 0, 3), target=output, special_zero=False)
    assert ask(question, (1, 2, 2)) == View(ViewPossibility.POSSIBLE, (0,) * len(output))


def test_a_known_view_has_strides():
    question = Question(operation=RESHAPE, data=[2, 3], target=[-1], special_zero=False)
    assert ask(question, (3, 1)) == View(ViewPossibility.POSSIBLE, (1,))


def test_a_transposed_tensor_is_no_view_when_flattened():
    question = Question(operation=RESHAPE, data=[2, 3], target=[-1], special_zero=False)
    assert ask(question, (1, 2)) == View(ViewPossibility.IMPOSSIBLE)


def test_a_copied_batch_does_not_keep_from_a_view():
    data: list[AnyDim] = [name_dim("N"), 2, 3]
    question = Question(operation=RESHAPE, data=data, target=[0, -1], special_zero=True)
    assert ask(question, (6, 3, 1)).possibility is ViewPossibility.POSSIBLE


def test_an_unknown_rank_leaves_a_view_unknown():
    question = Question(operation=RESHAPE, data=None, target=[-1], special_zero=False)
    assert ask(question, (1,)) == View(ViewPossibility.UNKNOWN)


MAX = 2**63 - 1
POSSIBLE, IMPOSSIBLE, UNKNOWN = ViewPossibility
N, M = name_dim("N"), name_dim("M")
A, B = name_dim("A", 2), name_dim("B", 2)
Shape = list[AnyDim]

# data, strides, target under special_zero; the answer
PARTIAL: dict[str, tuple[Shape, Dims, Shape, View]] = {
    "a copy beside a length of one value": ([M], (1,), [0, Dim(Interval(12, 12))], View(POSSIBLE, (0, 0))),
    "a copy beside a literal": ([M], (1,), [0, 2], View(POSSIBLE, (0, 0))),
    "a name that literals before a copy decide": ([4, N, 6], (12, 6, 1), [2, 2, 0], View(POSSIBLE, (24, 12, 1))),
    "an interval of one value": ([Dim(Interval(3, 3)), 2], (2, 1), [6], View(POSSIBLE, (1,))),
    "copies outside and dense inside": ([N, M, 4, 5], (1, 9, 5, 1), [0, 0, 20], View(POSSIBLE, (1, 9, 1))),
    "known outside and a name inside": ([2, 3, N], (3, 1, 9), [6, -1], View(POSSIBLE, (1, 9))),
    "known outside, transposed, and a name of elements inside": ([2, 3, A], (1, 2, 9), [6, -1], View(IMPOSSIBLE)),
    "transposed, and perhaps empty": ([2, 3, N], (1, 2, 9), [6, -1], View(UNKNOWN)),
    "a name merged with its neighbour": ([N, 2, 3], (6, 3, 1), [-1, 3], View(POSSIBLE, (3, 1))),
    "a gap behind a name of elements": ([A, 2, 3], (7, 3, 1), [-1], View(IMPOSSIBLE)),
    "a gap behind a name that may be 1": ([name_dim("N", 1), 2, 3], (7, 3, 1), [-1], View(UNKNOWN)),
    "two names that may be one run": ([A, B], (9, 1), [-1], View(UNKNOWN)),
    "two names that are never one run": ([A, B], (1, 9), [-1], View(IMPOSSIBLE)),
    "a broadcast under elements": ([A, B], (1, 0), [-1], View(IMPOSSIBLE)),
    "names of one element": ([name_dim("K", 0, 1), M], (5, 0), [], View(POSSIBLE, ())),
    "names that make one element": ([N, M], (5, 7), [1], View(POSSIBLE, (0,))),
    "a dim that is 1 where there are elements": ([name_dim("K", 0, 1), M, 2], (5, 2, 1), [-1], View(POSSIBLE, (1,))),
    "one element over and over": ([N, M], (0, 0), [-1], View(POSSIBLE, (0,))),
    "a broadcast and a name": ([3, N], (0, 1), [3, -1], View(POSSIBLE, (0, 1))),
    "an unknown dim that the target decides": ([3, None], (4, 1), [12], View(POSSIBLE, (1,))),
    "a scalar": ([], (), [1, -1, 1], View(POSSIBLE, (1, 1, 1))),
    "dims of 1 at any stride": ([1, 4, 1], (MAX, 1, 7), [2, 2], View(POSSIBLE, (2, 1))),
    "a dim of 1 beyond all others": ([2**62], (4,), [1, -1], View(POSSIBLE, (MAX, 4))),
    "strides that no s64 holds": ([2**62], (4,), [2, -1], View(UNKNOWN)),
    "an expression of the data": ([Dim(ANY, make_expression(2, [Symbol("N")])), 3], (3, 1), [-1], View(POSSIBLE, (1,))),
    "a literal of no elements": ([0, N], (5, 1), [Dim(Interval(0, 0)), 9], View(POSSIBLE, (0, 0))),
}


@pytest.mark.parametrize(("data", "strides", "target", "view"), PARTIAL.values(), ids=PARTIAL.keys())
def test_a_view_of_what_is_known_in_part(data: Shape, strides: Dims, target: Shape, view: View):
    question = Question(operation=RESHAPE, data=data, target=target, special_zero=True)
    assert ask(question, strides) == view


def test_an_output_of_an_unknown_rank_leaves_a_view_unknown():
    question = Question(operation=RESHAPE, data=[2, 3], target=None, special_zero=False)
    assert ask(question, (3, 1)) == View(UNKNOWN)


@pytest.mark.parametrize("data", ["2 3", "? 3", "N 3"])
@pytest.mark.parametrize("explain", [False, True])
def test_elements_below_one_byte_have_no_strides_to_ask_about(data: str, *, explain: bool):
    question = write_question(RESHAPE, data, "-1", True)._replace(data_type=DataType.U4)
    with pytest.raises(InvalidRequestError) as caught:
        answer_question(ShapeRequest(question, explain=explain, strides=(3, 1)))
    assert (caught.value.reason, caught.value.field) == (Reason.STRIDES_UNSUPPORTED, "data.strides")
