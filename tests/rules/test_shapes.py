"""The truths of the shape rules: one row of a table is one truth."""

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_reshape.rules.dims import check_dims
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.inference import infer_shape
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, OPERATIONS, RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question

GRAPH = (STATIC_RESHAPE, DYNAMIC_RESHAPE)
EVERY = tuple(OPERATIONS.values())
MAX = 2**63 - 1

Dims = tuple[int, ...]


def ask(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims:
    return infer_shape(Question(operation=operation, data=data, target=target, special_zero=special_zero))


def answer_or_refusal(operation: Operation, data: Dims, target: Dims, special_zero: bool) -> Dims | None:
    try:
        return ask(operation, data, target, special_zero)
    except InvalidRequestError:
        return None


# data, target, special_zero, output: the same for all operations.
TRUTHS: dict[str, tuple[Dims, Dims, bool, Dims]] = {
    "explicit dims": ((2, 3, 4), (4, 6), False, (4, 6)),
    "explicit dims with special_zero": ((2, 3, 4), (4, 6), True, (4, 6)),
    "the same shape": ((2, 3), (2, 3), False, (2, 3)),
    "one element is a scalar": ((1, 1), (), False, ()),
    "a scalar stays a scalar": ((), (), True, ()),
    "a scalar becomes (1)": ((), (1,), False, (1,)),
    "a scalar becomes (1,1)": ((), (1, 1), True, (1, 1)),
    "a scalar is flattened": ((), (-1,), False, (1,)),
    "a scalar is flattened among ones": ((), (1, -1, 1), True, (1, 1, 1)),
    "-1 alone flattens": ((2, 3, 4), (-1,), False, (24,)),
    "-1 first": ((2, 3, 4), (-1, 4), False, (6, 4)),
    "-1 in the middle": ((2, 3, 4), (2, -1, 2), False, (2, 6, 2)),
    "-1 last": ((2, 3, 4), (8, -1), True, (8, 3)),
    "-1 may be 1": ((2, 3), (2, 3, -1), False, (2, 3, 1)),
    "copy and infer": ((3, 4, 5), (0, -1), True, (3, 20)),
    "infer and copy": ((3, 1, 1), (-1, 0), True, (3, 1)),
    "copy in the middle": ((2, 3, 4), (-1, 3, 1, 2), True, (4, 3, 1, 2)),
    "copy everything": ((2, 3, 4), (0, 0, 0), True, (2, 3, 4)),
    "copy and append ones": ((2, 3), (0, 0, 1, 1), True, (2, 3, 1, 1)),
    "copy past a given dim": ((2, 3, 4), (2, 0, 4), True, (2, 3, 4)),
    "copy a dim of 0": ((0, 3), (0, 7), True, (0, 7)),
    "a literal 0": ((0, 3), (5, 0), False, (5, 0)),
    "a literal 0 beyond the rank": ((0,), (7, 9, 0), False, (7, 9, 0)),
    "literal zeros alone": ((0, 2), (0, 0), False, (0, 0)),
    "empty data flattened": ((0, 3), (-1,), False, (0,)),
    "empty data, -1 beside 3": ((0, 3), (3, -1), False, (3, 0)),
    "empty data, -1 beside 3, special_zero": ((0, 3), (3, -1), True, (3, 0)),
    "empty data, copy and infer the 0": ((3, 0), (0, -1), True, (3, 0)),
    "zero volume with a huge dim": ((0,), (2**62, 4, 0), False, (2**62, 4, 0)),
    "huge dims of zero volume as data": ((MAX, MAX, 0), (0,), False, (0,)),
    "the largest dim": ((MAX,), (1, MAX), False, (1, MAX)),
    "the largest dim inferred": ((7, MAX), (-1, 7), False, (MAX, 7)),
    "a volume beyond 64 bits": ((MAX, MAX), (MAX, -1), False, (MAX, MAX)),
    "a volume beyond double precision": ((2**53 + 1, 3), (3, -1), False, (3, 2**53 + 1)),
    "a volume beyond 128 bits": ((MAX, MAX, MAX), (MAX, -1, MAX), True, (MAX, MAX, MAX)),
    "twelve dims of 2^62": ((2**62,) * 12, (0,) * 11 + (-1,), True, (2**62,) * 12),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "special_zero", "output"), TRUTHS.values(), ids=TRUTHS.keys())
def test_every_operation_answers(operation: Operation, data: Dims, target: Dims, special_zero: bool, output: Dims):
    assert ask(operation, data, target, special_zero) == output


# Where an item is copied and a 0 leaves both sides with it, only Reshape-1 can infer.
CANCELLED: dict[str, tuple[Dims, Dims, Dims]] = {
    "the copied 0 is the only one": ((4, 0, 2), (-1, 0), (8, 0)),
    "the copied 0 comes first": ((0, 3, 4), (0, -1), (0, 12)),
    "two copied zeros": ((0, 0, 5), (0, 0, -1), (0, 0, 5)),
    "another 0 is inferred": ((0, 0, 5), (0, -1), (0, 0)),
    "the copied 0 in the middle": ((2, 0, 3), (3, 0, -1), (3, 0, 2)),
    "a copied 0 is all there is": ((0,), (0, -1), (0, 1)),
}


@pytest.mark.parametrize(("data", "target", "output"), CANCELLED.values(), ids=CANCELLED.keys())
def test_reshape_infers_beside_a_copied_zero(data: Dims, target: Dims, output: Dims):
    assert ask(RESHAPE, data, target, special_zero=True) == output


@pytest.mark.parametrize("operation", GRAPH, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "_"), CANCELLED.values(), ids=CANCELLED.keys())
def test_the_graph_operations_cannot_infer_beside_a_copied_zero(
    operation: Operation, data: Dims, target: Dims, _: Dims
):
    with pytest.raises(InvalidRequestError, match="product 0"):
        ask(operation, data, target, special_zero=True)


# data, target, expected
EXPECTED: dict[str, tuple[Dims, Dims, tuple[int | None, ...]]] = {
    "the very shape": ((2, 6), (3, -1), (3, 4)),
    "one unknown dim": ((2, 6), (3, -1), (3, None)),
    "only unknown dims": ((2, 6), (3, -1), (None, None)),
    "a scalar": ((1,), (), ()),
    "a dim of 0": ((0, 6), (3, -1), (3, 0)),
    "the largest dim": ((MAX,), (MAX, 1), (MAX, None)),
}


@pytest.mark.parametrize("operation", EVERY, ids=lambda operation: operation.name)
@pytest.mark.parametrize(("data", "target", "expected"), EXPECTED.values(), ids=EXPECTED.keys())
def test_an_expected_shape_that_holds_changes_nothing(
    operation: Operation, data: Dims, target: Dims, expected: tuple[int | None, ...]
):
    question = Question(operation=operation, data=data, target=target, special_zero=False, expected=expected)
    assert infer_shape(question) == ask(operation, data, target, special_zero=False)


@pytest.mark.parametrize("dims", [(), (0,), (MAX,), (0, 1, MAX)], ids=str)
def test_dims_from_0_to_the_largest_are_in_range(dims: Dims):
    assert check_dims(dims, "data.dims") == dims


small_dims = st.lists(st.integers(0, 4), max_size=5).map(tuple)
huge_dims = st.lists(st.sampled_from([0, 1, 2, 3, 2**31, 2**62, MAX]), max_size=12).map(tuple)
any_dims = small_dims | huge_dims
operations = st.sampled_from(EVERY)


@st.composite
def questions(draw: st.DrawFn) -> tuple[Dims, Dims, bool]:
    """Data with a target made from it, so that a fair share is admitted: regrouped dims, then copies and a -1."""
    data = draw(any_dims)
    target = list(draw(st.permutations(data)))
    for _ in range(draw(st.integers(0, 2))):
        if len(target) > 1:
            at = draw(st.integers(0, len(target) - 2))
            target[at : at + 2] = [target[at] * target[at + 1]]
    for at in draw(st.sets(st.integers(0, 11), max_size=3)):
        if at < len(target) and at < len(data):
            target[at] = draw(st.sampled_from([0, data[at], target[at]]))
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    return data, tuple(min(item, MAX) for item in target), draw(st.booleans())


@settings(deadline=None)
@given(operations, questions())
def test_an_output_has_the_volume_of_the_data(operation: Operation, question: tuple[Dims, Dims, bool]):
    output = answer_or_refusal(operation, *question)
    assert output is None or prod(output) == prod(question[0])


@settings(deadline=None)
@given(operations, questions())
def test_an_output_keeps_each_item_that_is_given_and_copies_each_that_is_asked_for(
    operation: Operation, question: tuple[Dims, Dims, bool]
):
    data, target, special_zero = question
    output = answer_or_refusal(operation, data, target, special_zero)
    if output is not None:
        expected = [data[at] if item == 0 and special_zero else item for at, item in enumerate(target)]
        assert [have for have, want in zip(output, expected, strict=True) if want != -1] == [
            want for want in expected if want != -1
        ]


@settings(deadline=None)
@given(questions())
def test_static_and_dynamic_reshape_agree(question: tuple[Dims, Dims, bool]):
    assert answer_or_refusal(STATIC_RESHAPE, *question) == answer_or_refusal(DYNAMIC_RESHAPE, *question)


@settings(deadline=None)
@given(questions())
def test_reshape_agrees_with_static_reshape_unless_a_dim_of_0_is_copied_beside_a_minus_one(
    question: tuple[Dims, Dims, bool],
):
    data, target, special_zero = question
    copies_zero = special_zero and any(item == 0 for item, dim in zip(target, data, strict=False) if dim == 0)
    if not (copies_zero and -1 in target):
        assert answer_or_refusal(RESHAPE, *question) == answer_or_refusal(STATIC_RESHAPE, *question)


@settings(deadline=None)
@given(operations, questions())
def test_an_output_asked_for_literally_is_admitted_again(operation: Operation, question: tuple[Dims, Dims, bool]):
    output = answer_or_refusal(operation, *question)
    if output is not None:
        assert ask(operation, question[0], output, special_zero=False) == output


@settings(deadline=None)
@given(operations, any_dims)
def test_copying_every_dim_changes_nothing(operation: Operation, data: Dims):
    assert ask(operation, data, (0,) * len(data), special_zero=True) == data


@settings(deadline=None)
@given(operations, small_dims)
def test_a_minus_one_alone_is_the_volume(operation: Operation, data: Dims):
    assert ask(operation, data, (-1,), special_zero=False) == (prod(data),)


@settings(deadline=None)
@given(operations, small_dims, st.lists(st.integers(-1, 4), max_size=5).map(tuple))
def test_without_a_zero_in_the_target_special_zero_means_nothing(operation: Operation, data: Dims, target: Dims):
    target = tuple(item or 1 for item in target)
    copies = answer_or_refusal(operation, data, target, special_zero=True)
    assert copies == answer_or_refusal(operation, data, target, special_zero=False)
