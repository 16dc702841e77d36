"""Inference, compared with enumeration, with a second implementation of the rules, and with numpy."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hypothesis_profiles import examples
from tensor_reshape.rules.batches import BatchItem
from tensor_reshape.rules.dims import ANY, AnyDim, Dim, Interval, Symbol, make_expression, name_dim
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer, infer_shape
from tensor_reshape.rules.operations import OPERATIONS, Operation
from tensor_reshape.rules.questions import AnyQuestion, Question, ShapeRequest
from tests.oracles.round_trips import format_item
from tests.oracles.shape_instances import answer_concrete, ask
from verification.prove import STYLES, choose_question, prove

Dims = tuple[int, ...]
MAX = 2**63 - 1
WRONG = {"unsound", "incomplete conditions", "loose", "crashed"}


@examples(100)
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


def answer(question: Question[Dims]) -> Dims | None:
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
    assert [answer(question), None if told is None else told.dims] == [want, want]


@examples(500)
@given(operations, questions(small_dims) | st.tuples(small_dims, small_dims))
def test_results_without_special_zero_agree_with_numpy(operation: Operation, asked: tuple[Dims, Dims]):
    data, target = asked
    try:
        shape = np.empty(data, np.uint8).reshape(target).shape
    except ValueError:
        shape = None
    assert answer(Question(operation, data, target, special_zero=False)) == shape
