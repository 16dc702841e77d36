"""Views, compared with reshapes of numpy without a copy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.budgets import StepBudget
from tensor_reshape.rules.dims import Dim, Interval
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import RESHAPE
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest
from tensor_reshape.rules.views import View, ViewPossibility, infer_view
from tests.oracles.shape_instances import find_accepted
from tests.oracles.view_instances import find_strides, list_addresses
from written_questions import write_question

Dims = tuple[int, ...]
MAX = 2**63 - 1
POSSIBLE, IMPOSSIBLE, UNKNOWN = ViewPossibility
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
    try:
        return np.reshape(array, output, copy=False)
    except ValueError:
        return None


def ask(question: AnyQuestion, strides: Dims) -> View:
    view = answer_question(ShapeRequest(question, strides=strides)).view
    assert view is not None
    return view


@examples(800)
@given(st.data())
def test_view_is_possible_exactly_if_numpy_returns_a_view(data: st.DataObject):
    array = data.draw(arrays())
    output = data.draw(outputs(array.size))
    question = Question(operation=RESHAPE, data=array.shape, target=output, special_zero=False)
    found = ask(question, tuple(stride // array.itemsize for stride in array.strides))
    assert found.possibility is (IMPOSSIBLE if view_in_numpy(array, output) is None else POSSIBLE)
    if found.strides is not None:
        strides = [stride * array.itemsize for stride in found.strides]
        view = np.lib.stride_tricks.as_strided(array, output, strides)
        assert view.tolist() == array.reshape(output).tolist()


few = st.integers(1, 4) | st.tuples(st.integers(0, 2), st.integers(1, 2)).map(
    lambda pair: Dim(Interval(pair[0], sum(pair)))
)


@examples(300)
@given(st.lists(few, min_size=1, max_size=3), st.lists(few, max_size=3), st.data())
def test_view_of_few_instances_is_exact(data: list[int | Dim], output: list[int | Dim], draw: st.DataObject):
    strides = tuple(draw.draw(st.lists(st.integers(0, 6), min_size=len(data), max_size=len(data))))
    question = Question(operation=RESHAPE, data=data, target=output, special_zero=False)
    try:
        found = ask(question, strides)
    except InvalidRequestError:  # the query or its strides
        return
    accepted = [(case.data, case.output) for case in find_accepted(question).accepted]
    views = {case: find_strides(case[0], strides, case[1]) for case in accepted if 0 not in case[0]}
    if None in views.values():
        assert found.possibility is (
            IMPOSSIBLE if {*views.values()} == {None} and len(views) == len(accepted) else UNKNOWN
        )
        return
    # In each instance, the stride of a dim of 1 has no effect.
    used = [
        {view[index] for (_, dims), view in views.items() if view and dims[index] > 1} for index in range(len(output))
    ]
    assert found.possibility is (POSSIBLE if all(len(own) <= 1 for own in used) else UNKNOWN)
    if found.strides is not None:
        assert all(list_addresses(dims, strides) == list_addresses(own, found.strides) for dims, own in views)


def test_reshape_of_an_empty_tensor_can_always_be_a_view():
    for output in [(0,), (3, 0), (0, 5, 7)]:
        question = Question(operation=RESHAPE, data=(2, 0, 3), target=output, special_zero=False)
        assert ask(question, (1, 2, 2)) == View(POSSIBLE, (0,) * len(output))


# data, strides, target with special_zero; the result
VIEWS: dict[tuple[str | None, Dims, str | None], View] = {
    ("2 3", (3, 1), "-1"): View(POSSIBLE, (1,)),
    ("2 3", (1, 2), "-1"): View(IMPOSSIBLE),
    ("N 2 3", (6, 3, 1), "0 -1"): View(POSSIBLE, (6, 1)),
    ("N 4", (4, 1), "-1 2"): View(POSSIBLE, (2, 1)),  # a dim that ends within a run of unknown length
    (None, (1,), "-1"): View(UNKNOWN),
    ("2 3", (3, 1), None): View(UNKNOWN),
    ("M", (1,), "0 12..12"): View(POSSIBLE, (0, 0)),  # only an empty tensor
    ("M", (1,), "0 2"): View(POSSIBLE, (0, 0)),
    ("4 N 6", (12, 6, 1), "2 2 0"): View(POSSIBLE, (24, 12, 1)),  # literals before a copy decide the name
    ("3..3 2", (2, 1), "6"): View(POSSIBLE, (1,)),
    ("N M 4 5", (1, 9, 5, 1), "0 0 20"): View(POSSIBLE, (1, 9, 1)),
    ("2 3 N", (3, 1, 9), "6 -1"): View(POSSIBLE, (1, 9)),
    ("2 3 A:2..", (1, 2, 9), "6 -1"): View(IMPOSSIBLE),
    ("2 3 N", (1, 2, 9), "6 -1"): View(UNKNOWN),  # transposed, and perhaps empty
    ("N 2 3", (6, 3, 1), "-1 3"): View(POSSIBLE, (3, 1)),
    ("A:2.. 2 3", (7, 3, 1), "-1"): View(IMPOSSIBLE),
    ("N:1.. 2 3", (7, 3, 1), "-1"): View(UNKNOWN),  # a gap after a name that may be 1
    ("A:2.. B:2..", (9, 1), "-1"): View(UNKNOWN),  # two names that may be one run
    ("A:2.. B:2..", (1, 9), "-1"): View(IMPOSSIBLE),
    ("A:2.. B:2..", (1, 0), "-1"): View(IMPOSSIBLE),  # a broadcast below an outer dim
    ("K:0..1 M", (5, 0), ""): View(POSSIBLE, ()),
    ("N M", (5, 7), "1"): View(POSSIBLE, (0,)),
    ("K:0..1 M 2", (5, 2, 1), "-1"): View(POSSIBLE, (1,)),  # K is 1 if there are elements
    ("N M", (0, 0), "-1"): View(POSSIBLE, (0,)),  # one repeated element
    ("3 N", (0, 1), "3 -1"): View(POSSIBLE, (0, 1)),
    ("3 ?", (4, 1), "12"): View(POSSIBLE, (1,)),  # the target decides the unknown dim
    ("", (), "1 -1 1"): View(POSSIBLE, (1, 1, 1)),
    ("1 4 1", (MAX, 1, 7), "2 2"): View(POSSIBLE, (2, 1)),
    (str(2**62), (4,), "1 -1"): View(POSSIBLE, (MAX, 4)),
    (str(2**62), (4,), "2 -1"): View(UNKNOWN),  # strides above the largest s64
    ("2*N 3", (3, 1), "-1"): View(POSSIBLE, (1,)),
    ("0 N", (5, 1), "0..0 9"): View(POSSIBLE, (0, 0)),
}


def test_view_possibility_is_decided_for_partial_shapes():
    found = {row: ask(write_question(RESHAPE, row[0], row[2], True), row[1]) for row in VIEWS}
    assert found == VIEWS


def test_overlap_is_found_if_the_volume_decides_a_dim():
    for data in ("? 2", "N:0..9 2"):
        with pytest.raises(InvalidRequestError) as caught:
            ask(write_question(RESHAPE, data, "2 2", True), (1, 1))
        assert caught.value.reason == Reason.STRIDES_OVERLAP, data


def test_search_for_a_view_with_an_impossible_part_ends_soon():
    budget = StepBudget()
    data: list[int | Dim] = [Dim(Interval(0, 2)), 2, 3, *[Dim(Interval(1, 2))] * 6]
    found = infer_view(data, (6, 1, 2, *[999] * 6), [Dim(Interval(0, 2)), 6, None], (0,), budget)
    assert (found.possibility, StepBudget().left - budget.left < 50) == (UNKNOWN, True)


@pytest.mark.parametrize("explain", [False, True])
def test_view_query_rejects_packed_types(explain: bool):
    for data in ("2 3", "? 3", "N 3"):
        question = write_question(RESHAPE, data, "-1", True)._replace(data_type=DataType.U4)
        with pytest.raises(InvalidRequestError) as caught:
            answer_question(ShapeRequest(question, explain=explain, strides=(3, 1)))
        assert (caught.value.reason, caught.value.field) == (Reason.STRIDES_UNSUPPORTED, "data.strides"), data
