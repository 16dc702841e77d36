"""Batches: each item is answered by itself, or takes the output of an earlier one as its data.

A batch has one step budget, to which each item adds the same: many hard items make the answers of later ones wider,
never wrong. What a link takes over of an earlier output is charged as well, since no bytes of the request pay for it; a
link that the budget cannot pay is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.budgets import MAX_STEPS, StepBudget
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest

ReportBug: TypeAlias = Callable[[Exception], None]
"""Takes a bug that one item of a batch hit, so that it does not end the others."""

ITEM_STEPS = 64
"""What an item adds to the step budget of its batch: nearly twice what the hardest kind of random question takes."""

RESERVE_STEPS = 1024 * ITEM_STEPS
"""What a batch has beside that, so that hard items may stand together."""

_LINK_STEPS = 8  # for each dim of the linked data that is not a number, and for each symbol in it


class BatchItem(NamedTuple):
    """One question of a batch.

    Attributes:
        request: the question.
        data_from: the index of the earlier item whose output is the data; None: the question has its own.
    """

    request: ShapeRequest
    data_from: int | None = None


def answer_batch(
    items: Iterable[BatchItem | ReshapeError], limits: Limits = DEFAULT_LIMITS, report: ReportBug | None = None
) -> Iterator[ShapeAnswer | ReshapeError]:
    """Answers each item, or gives its refusal; an item that could not be read is one already.

    Args:
        items: of the batch.
        limits: of the server.
        report: takes the bugs; None: one is raised.
    """
    outputs: list[_Output | None] = []
    budget, steps = StepBudget(), RESERVE_STEPS
    for item in items:
        steps += ITEM_STEPS
        # An item may spend no more than a question alone, whatever is left over from those before it.
        budget.left = granted = min(steps, MAX_STEPS)
        answer, output = _answer_item(item, outputs, limits, budget, report)
        steps -= granted - budget.left  # the last step may have overdrawn it
        outputs.append(output)
        yield answer


def refuse_bug(bug: Exception, report: ReportBug | None) -> ReshapeError:
    """Returns the refusal of an item that hit a bug, of which its caller is told no more than that.

    Raises:
        Exception: the bug itself, where nobody takes it.
    """
    if report is None:
        raise bug
    report(bug)
    return ReshapeError("internal error", reason=Reason.INTERNAL_ERROR)


class _Output(NamedTuple):
    """What a later item may take as its data."""

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
    except Exception as bug:  # noqa: BLE001 - whatever it is, the other items are answered
        return refuse_bug(bug, report), None
    return answer, _Output(answer.dims, request.question.data_type)


def _link(request: ShapeRequest, data_from: int, outputs: Sequence[_Output | None], budget: StepBudget) -> ShapeRequest:
    """Returns the question with its data."""
    if not 0 <= data_from < len(outputs):
        message = f"data_from is {data_from}; item {len(outputs)} takes the output of an earlier one"
        raise InvalidRequestError.of(
            Reason.BATCH_REFERENCE_INVALID, message, "data_from", value=data_from, index=len(outputs)
        )
    if request.question.data is not None:
        message = f"item {len(outputs)} has data of its own and the output of item {data_from}"
        raise InvalidRequestError.of(
            Reason.BATCH_REFERENCE_INVALID, message, "data_from", value=data_from, index=len(outputs)
        )
    output = outputs[data_from]
    if output is None:
        message = f"item {data_from}, whose output is the data, was refused"
        raise InvalidRequestError.of(
            Reason.BATCH_DEPENDENCY_FAILED, message, "data_from", value=data_from, index=len(outputs)
        )
    # No bytes pay for what a link takes over: thousands of short items could each ask for the largest shape again.
    if not budget.spend(_LINK_STEPS * _count_unknown(output.dims or ())):
        message = f"item {data_from}, whose output is the data, has so many unknown dims that others must link it less"
        raise LimitError.of(Reason.BATCH_TOO_LARGE, message, "data_from", value=data_from, index=len(outputs))
    # A type that the item names goes before that of its data: it is what the item asks to be checked.
    data_type = request.question.data_type or output.data_type
    return request._replace(question=request.question._replace(data=output.dims, data_type=data_type))


def _count_unknown(dims: Iterable[AnyDim]) -> int:
    """Returns how many dims are not numbers, and how many symbols are in them."""
    count = 0
    for dim in dims:
        if not isinstance(dim, int):
            expression = None if dim is None else dim.expression
            count += 1 if expression is None else 1 + len(expression.factors) + len(expression.divisors)
    return count
