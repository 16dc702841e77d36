"""Questions with all that may be asked of them, one by one or in batches.

A batch has one step budget, to which each item adds the same: many hard items make the answers of later ones wider,
never wrong. What a link takes over of an earlier output is charged as well, since no bytes of the request pay for it; a
link that the budget cannot pay is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from tensor_reshape.rules.dims import AnyDim, are_known
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.explanations import Origin, explain, explain_refusal
from tensor_reshape.rules.limits import DEFAULT_LIMITS, Limits
from tensor_reshape.rules.partial import PartialQuestion, infer_partial
from tensor_reshape.rules.plain import infer_plain
from tensor_reshape.rules.products import MAX_STEPS, Search
from tensor_reshape.rules.terms import Equality
from tensor_reshape.rules.views import View, infer_view

ReportBug: TypeAlias = Callable[[Exception], None]
"""Takes a bug that one item of a batch hit, so that it does not end the others."""

ITEM_STEPS = 64
"""What an item adds to the step budget of its batch: nearly twice what the hardest kind of random question takes."""

RESERVE_STEPS = 1024 * ITEM_STEPS
"""What a batch has beside that, so that hard items may stand together."""

_LINK_STEPS = 8  # for each dim of the linked data that is not a number, and for each symbol in it


class ShapeRequest(NamedTuple):
    """A question, and what else is to be told with its answer.

    Attributes:
        question: what is asked.
        explain: whether the answer says where its dims come from, and a refusal what would have been accepted.
        strides: of the data, in elements, where it is asked whether the output can be a view; else None.
    """

    question: PartialQuestion
    explain: bool = False
    strides: Sequence[int] | None = None


class ShapeAnswer(NamedTuple):
    """An answer.

    Attributes:
        dims: the output's; None: not even the rank is known.
        equalities: what else must hold between the symbols.
        origins: where each dim comes from, where that was asked.
        view: whether the output can be a view, where that was asked.
    """

    dims: tuple[AnyDim, ...] | None
    equalities: tuple[Equality, ...] = ()
    origins: tuple[Origin, ...] = ()
    view: View | None = None


class BatchItem(NamedTuple):
    """One question of a batch.

    Attributes:
        request: the question.
        data_from: the index of the earlier item whose output is the data; None: the question has its own.
    """

    request: ShapeRequest
    data_from: int | None = None


def answer_question(
    request: ShapeRequest, limits: Limits = DEFAULT_LIMITS, search: Search | None = None
) -> ShapeAnswer:
    """Answers one question.

    Args:
        request: the question.
        limits: of the server.
        search: the step budget of the question; None: a whole one.

    Raises:
        InvalidRequestError: it is against a rule, or no instance of it is accepted.
        LimitError: RANK_LIMIT_EXCEEDED.
    """
    question, explained, strides = request
    try:
        dims, equalities = infer_partial(question, limits, search)
        view = None if strides is None else infer_view(question, strides, dims)
    except ReshapeError as error:
        if explained:
            raise explain_refusal(question, error) from None
        raise
    return ShapeAnswer(dims, equalities, explain(question, dims) if explained else (), view)


def is_light(question: PartialQuestion) -> bool:
    """Whether the answer takes no search, whatever it is."""
    data, target = question.data, question.target
    if question.special_zero is None or (are_known(data) and are_known(target)):
        return True
    if data is None or target is None or question.expected is not None:
        return False
    cancel = question.operation.copies_cancel
    return infer_plain(data, target, special_zero=question.special_zero, copies_cancel=cancel) is not None


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
    search, steps = Search(), RESERVE_STEPS
    for item in items:
        steps += ITEM_STEPS
        search.left = granted = min(steps, MAX_STEPS)
        answer, output = _answer_item(item, outputs, limits, search, report)
        steps -= granted - search.left  # the last step may have overdrawn it
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
    search: Search,
    report: ReportBug | None,
) -> tuple[ShapeAnswer | ReshapeError, _Output | None]:
    if isinstance(item, ReshapeError):
        return item, None
    try:
        request = item.request if item.data_from is None else _link(item.request, item.data_from, outputs, search)
        answer = answer_question(request, limits, search)
    except ReshapeError as error:
        return error, None
    except Exception as bug:  # noqa: BLE001 - whatever it is, the other items are answered
        return refuse_bug(bug, report), None
    return answer, _Output(answer.dims, request.question.data_type)


def _link(request: ShapeRequest, data_from: int, outputs: Sequence[_Output | None], search: Search) -> ShapeRequest:
    """Returns the question with its data."""
    if not 0 <= data_from < len(outputs):
        message = f"data_from is {data_from}; item {len(outputs)} takes the output of an earlier one"
        raise InvalidRequestError.of(Reason.LINK_INVALID, message, "data_from", value=data_from, index=len(outputs))
    if request.question.data is not None:
        message = f"item {len(outputs)} has data of its own and the output of item {data_from}"
        raise InvalidRequestError.of(Reason.LINK_INVALID, message, "data_from", value=data_from, index=len(outputs))
    output = outputs[data_from]
    if output is None:
        message = f"item {data_from}, whose output is the data, was refused"
        raise InvalidRequestError.of(Reason.LINK_FAILED, message, "data_from", value=data_from, index=len(outputs))
    if not search.spend(_LINK_STEPS * _count_unknown(output.dims or ())):
        message = f"item {data_from}, whose output is the data, has so many unknown dims that others must link it less"
        raise LimitError.of(Reason.BATCH_TOO_LARGE, message, "data_from", value=data_from, index=len(outputs))
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
