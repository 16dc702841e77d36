"""The drawing that the page shows for a query."""

from collections.abc import Callable

from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest


def draw_question(request: ShapeRequest, infer: Callable[[ShapeRequest], ShapeAnswer]) -> str:
    """Returns the drawing of the answer, or of the rejection of the query, as SVG.

    Args:
        request: the query.
        infer: the function that answers a query, or raises its rejection.

    Raises:
        ReshapeError: the call is rejected for a cause other than the query, for example because the server is busy.
    """
    try:
        answer = infer(request)
    except ReshapeError as error:
        if not _concerns_query(error):
            raise
        return draw_rejection(request.question, error)
    return draw_answer(request.question, answer)


def _concerns_query(error: ReshapeError) -> bool:
    """Whether the same query would be rejected again. A call is STALLED if its client is gone."""
    if isinstance(error, LimitError):
        return isinstance(error.reason, Reason) and not (error.reason.is_retryable or error.reason is Reason.STALLED)
    return isinstance(error, InvalidRequestError)
