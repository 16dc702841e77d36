"""Batches of queries.

An item of a batch is an independent query, or a query whose input shape is the output shape of an earlier item.

All items of a batch share one step budget, and each item adds the same number of steps to the budget. If a batch
contains many hard items, later results may have wider ranges than necessary, but are never wrong. If an item uses an
earlier output as its input shape, copying this shape costs additional steps. A reference to an earlier output takes
only a few bytes of the request, so the size of the request does not limit the copied shapes. The item is rejected if
too few steps are left for copying.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question, begin_answer
from tensor_reshape.rules.limits import DEFAULT_LIMITS, MAX_STEPS, Limits, StepBudget
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest

ReportBug: TypeAlias = Callable[[Exception], None]
"""A function that handles a bug in one item of a batch, so that the other items are still answered."""

ITEM_STEPS = 64
"""The steps that an item adds to the budget of its batch. The hardest kind of random query needs about half of them."""

RESERVE_STEPS = 1024 * ITEM_STEPS
"""The steps that a batch has before its first item, so that several hard items may follow each other."""

# If an item of a batch uses the output of an earlier item, each output dim that is not a number costs this many steps
# of the budget. Each symbol in these dims costs the same number of steps.
_LINK_STEPS = 8


class BatchItem(NamedTuple):
    """One item of a batch, which is a query.

    Attributes:
        request: the query.
        data_from: the index of the earlier item whose output shape is the input shape of this query. None means that
            the query contains its own data shape.
    """

    request: ShapeRequest
    data_from: int | None = None


def answer_batch(
    items: Iterable[BatchItem | ReshapeError], limits: Limits = DEFAULT_LIMITS, report: ReportBug | None = None
) -> Iterator[ShapeAnswer | ReshapeError]:
    """Yields the result or the error of each item.

    Args:
        items: the items of the batch. An item that could not be read is replaced by its error.
        limits: the limits of the server.
        report: the function that is called with the exception if a bug makes the rules fail. If `report` is None, the
            exception is raised.
    """
    outputs: list[_Output | None] = []
    explanations = _Reserve()
    reserve = _Reserve(explanations.budget)
    for item in items:
        reserve.grant()
        explanations.grant()
        answer, output = _answer_item(item, outputs, limits, reserve.budget, report)
        outputs.append(output)
        yield answer


class _Reserve:
    """The step budget of a batch. The attribute `budget` contains the steps of the current item."""

    def __init__(self, explanations: StepBudget | None = None) -> None:
        self.budget = StepBudget(0, explanations)
        self._steps, self._granted = RESERVE_STEPS, 0

    def grant(self) -> None:
        """Takes back the steps that the last item has not used, and gives steps to the next item."""
        # the value of `budget.left` is negative if the last step exceeded the budget
        self._steps += ITEM_STEPS - (self._granted - self.budget.left)
        # An item of a batch may not use more steps than a single query, even if earlier items did not use all their
        # steps.
        self.budget.left = self._granted = min(self._steps, MAX_STEPS)


def answer_light_item(
    item: BatchItem | ReshapeError, limits: Limits = DEFAULT_LIMITS
) -> ShapeAnswer | ReshapeError | None:
    """Returns the result that `answer_batch` has for an item, or None if the result may take long to find.

    An item takes long if it needs a search, an explanation or the output of an earlier item.
    """
    if isinstance(item, ReshapeError):
        return item
    if item.data_from is not None or item.request.explain:
        return None
    try:
        begun = begin_answer(item.request, limits)
    except ReshapeError as error:
        return error
    return begun if isinstance(begun, ShapeAnswer) else None


def reject_bug(bug: Exception, report: ReportBug | None) -> ReshapeError:
    """Returns the error for an item that failed because of a bug. The error contains no details of the bug.

    Raises:
        Exception: the exception that the bug has caused, if `report` is None.
    """
    if report is None:
        raise bug
    report(bug)
    return ReshapeError("internal error", reason=Reason.INTERNAL_ERROR)


class _Output(NamedTuple):
    """The parts of an item's result that a later item of the batch can use as its data."""

    dims: Sequence[AnyDim] | None
    data_type: DataType | None


def _answer_item(
    item: BatchItem | ReshapeError,
    outputs: Sequence[_Output | None],
    limits: Limits,
    budget: StepBudget,
    report: ReportBug | None,
) -> tuple[ShapeAnswer | ReshapeError, _Output | None]:
    if isinstance(item, ReshapeError):
        return item, None
    try:
        request = item.request if item.data_from is None else _link(item.request, item.data_from, outputs, budget)
        answer = answer_question(request, limits, budget)
    except ReshapeError as error:
        return error, None
    except Exception as bug:  # noqa: BLE001 - a bug must not prevent the answers to other items
        return reject_bug(bug, report), None
    return answer, _Output(answer.dims, request.question.data_type)


def _link(request: ShapeRequest, data_from: int, outputs: Sequence[_Output | None], budget: StepBudget) -> ShapeRequest:
    """Returns the query with the output of an earlier item as its data."""
    index = len(outputs)

    def reject(reason: Reason, message: str, kind: type[ReshapeError] = InvalidRequestError) -> ReshapeError:
        return kind.of(reason, message, "data_from", value=data_from, index=index)

    if not 0 <= data_from < index:
        message = f"data_from is {data_from}; item {index} can only use the output of an earlier item"
        raise reject(Reason.BATCH_REFERENCE_INVALID, message)
    if request.question.data is not None:
        message = f"item {index} has an input shape, so it cannot also use the output of item {data_from}"
        raise reject(Reason.BATCH_REFERENCE_INVALID, message)
    output = outputs[data_from]
    if output is None:
        message = f"the input is the output of item {data_from}, and item {data_from} was rejected"
        raise reject(Reason.BATCH_DEPENDENCY_FAILED, message)
    # In a message, a reference to the output of an earlier item takes only a few bytes. If such a reference cost no
    # steps, thousands of short items could each request the largest shape.
    if not budget.spend(_LINK_STEPS * _count_unknown(output.dims or ())):
        message = f"too many items use the output of item {data_from}, which has many unknown dimensions"
        raise reject(Reason.BATCH_TOO_LARGE, message, LimitError)
    # If the batch item has a data type of its own, this type is used instead of the type of the earlier output, because
    # the caller expects a check of this type.
    data_type = request.question.data_type or output.data_type
    return request._replace(question=request.question._replace(data=output.dims, data_type=data_type))


def _count_unknown(dims: Iterable[AnyDim]) -> int:
    """Returns the number of dims that are not numbers, plus the number of symbols in them."""
    others = [dim for dim in dims if not isinstance(dim, int)]
    return len(others) + sum(len(dim.expression.symbols) for dim in others if dim is not None and dim.expression)
