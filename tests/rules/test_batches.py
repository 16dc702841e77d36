"""Batches: each item has a result of its own, or uses the output of an earlier item."""

from collections.abc import Sequence
from random import Random
from typing import cast

import pytest

from tensor_reshape.rules.batches import BatchItem, answer_batch, answer_light_item
from tensor_reshape.rules.dims import AnyDim, Dim, Interval, name_dim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, Reason, ReshapeError
from tensor_reshape.rules.operations import RESHAPE, STATIC_RESHAPE, Operation
from tensor_reshape.rules.questions import Question, ShapeAnswer, ShapeRequest
from verification.prove import STYLES, choose_question


def make_item(
    data: Sequence[AnyDim] | None,
    target: Sequence[AnyDim],
    data_from: int | None = None,
    data_type: DataType | None = None,
    operation: Operation = RESHAPE,
) -> BatchItem:
    question = Question(operation=operation, data=data, target=target, special_zero=True, data_type=data_type)
    return BatchItem(ShapeRequest(question), data_from)


def show(answer: ShapeAnswer | ReshapeError) -> object:
    return answer.dims if isinstance(answer, ShapeAnswer) else answer.reason


def answer(*items: BatchItem | ReshapeError) -> list[object]:
    return [show(each) for each in answer_batch(items)]


def test_rejected_batch_items_do_not_affect_other_items():
    items = [make_item([6], [2, -1]), make_item([7], [2, -1]), make_item([8], [2, -1])]
    assert answer(*items) == [(2, 3), Reason.NOT_DIVISIBLE, (2, 4)]
    unread = InvalidRequestError.of(Reason.DIM_UNKNOWN, "what is it?")
    assert list(answer_batch([unread])) == [unread]


def test_light_item_has_the_same_result_as_in_a_batch():
    unread = InvalidRequestError.of(Reason.DIM_UNKNOWN, "what is it?")
    for item in (make_item([6], [2, -1]), make_item([7], [2, -1]), make_item([name_dim("N"), 4], [0, 2, -1]), unread):
        result = answer_light_item(item)
        assert result is not None
        assert [show(result)] == answer(item)


def test_item_with_a_search_reference_or_explanation_is_not_light():
    plain = make_item([6], [6])
    assert answer_light_item(plain._replace(request=plain.request._replace(explain=True))) is None
    assert answer_light_item(make_item(None, [-1], 0)) is None
    assert answer_light_item(make_item([6], [None, 2])) is None


def test_explanations_do_not_change_the_results_of_a_batch():
    # Each item needs a search with many steps, and its explanation needs even more.
    length: AnyDim = Dim(Interval(1, 60))
    plain = [make_item([Dim(Interval(low, low + 40)), 6, name_dim("N")], [length, length, 4]) for low in range(1, 120)]
    explained = [item._replace(request=item.request._replace(explain=True)) for item in plain]
    assert answer(*explained) == answer(*plain)


def test_data_from_uses_the_output_shape_of_an_earlier_item():
    assert answer(make_item([2, 3, 4], [0, -1]), make_item(None, [-1, 0], 0)) == [(2, 12), (2, 12)]
    n = name_dim("N")
    assert answer(make_item([n, 3, 4], [0, -1]), make_item(None, [0, 4, 3], 0))[1] == (n, 4, 3)


def describe(answer: ShapeAnswer | ReshapeError) -> object:
    return answer if isinstance(answer, ShapeAnswer) else (answer.reason, answer.message)


@pytest.mark.parametrize("style", STYLES)
def test_linked_item_has_the_result_of_a_query_with_the_same_data(style: str):
    random = Random(style)
    for _ in range(40):
        first, second = (ShapeRequest(choose_question(random, STYLES[style])) for _ in range(2))
        output, linked = answer_batch(
            [BatchItem(first), BatchItem(second._replace(question=second.question._replace(data=None)), 0)]
        )
        if isinstance(output, ShapeAnswer):
            asked = second._replace(question=second.question._replace(data=output.dims))
            assert describe(linked) == describe(next(answer_batch([BatchItem(asked)]))), (first, second)


def test_batch_item_with_an_invalid_data_from_is_rejected():
    for data_from in (1, 2, -1, 2**63):
        answers = answer(make_item([1], [1]), make_item(None, [-1], data_from), make_item([2], [2]))
        assert answers == [(1,), Reason.BATCH_REFERENCE_INVALID, (2,)], data_from
    assert answer(make_item([1], [1]), make_item([1], [-1], 0))[1] == Reason.BATCH_REFERENCE_INVALID


def test_dependent_item_error_names_the_rejected_item():
    _, failed = answer_batch([make_item([7], [2, -1]), make_item(None, [-1], 0)])
    assert isinstance(failed, ReshapeError)
    assert (failed.reason, failed.metadata["value"]) == (Reason.BATCH_DEPENDENCY_FAILED, "0")


def test_linked_batch_items_inherit_the_data_type():
    first, second = make_item([2], [-1], None, DataType.I32), make_item(None, [-1], 0)
    assert answer(first, second, make_item(None, [-1], 1, None, STATIC_RESHAPE))[2] == Reason.DATA_TYPE_UNSUPPORTED


def test_contradicting_data_type_of_a_linked_item_is_rejected():
    for linked, named, outcome in (
        (DataType.F32, DataType.I32, Reason.DATA_TYPE_UNSUPPORTED),
        (DataType.I32, DataType.F32, (2,)),
    ):
        first, second = make_item([2], [-1], None, linked), make_item(None, [-1], 0, named, STATIC_RESHAPE)
        assert answer(first, second) == [(2,), outcome]


def test_unexpected_exception_in_a_batch_affects_only_its_item():
    bugs: list[Exception] = []
    good, bad = make_item([6], [2, -1]), make_item(cast("list[AnyDim]", 7), [-1])  # not dims: reading them is a bug
    first, failed, linked, last = answer_batch([good, bad, make_item(None, [-1], 1), good], report=bugs.append)
    assert isinstance(failed, ReshapeError)
    assert (type(failed), failed.reason, failed.message) == (ReshapeError, Reason.INTERNAL_ERROR, "internal error")
    assert (show(first), show(linked), show(last)) == ((2, 3), Reason.BATCH_DEPENDENCY_FAILED, (2, 3))
    assert [type(bug) for bug in bugs] == [TypeError]
    with pytest.raises(TypeError, match="'int'"):
        list(answer_batch([bad]))
