"""Builds the data that the page shows for a query: the answer or rejection, the drawing, and the query as code.

Invariants: this module contains no reshape rules. The function `ask` gets each result from the service, like any other
call. The rejection of a query is a part of the data. The rejection of a call, for example by a busy server, is raised
as an exception.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.explorer.query_parser import QueryText, find_wrong_item, parse_query
from tensor_reshape.explorer.snippets import write_snippets
from tensor_reshape.rules.dims import AnyDim, format_dim, format_dims
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.questions import Origin, ShapeAnswer, ShapeRequest
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import build_infer_request

Json: TypeAlias = dict[str, Any]

Ask: TypeAlias = Callable[[ShapeRequest], ShapeAnswer]
"""A function that answers a query, or raises the rejection of the service."""


def build_response(text: QueryText, ask: Ask, listen: Sequence[str]) -> Json:
    """Returns all data for the page.

    Args:
        text: the query.
        ask: the function that sends a query to the service.
        listen: the gRPC addresses of the service.

    Raises:
        ReshapeError: the call is rejected for a cause other than the query.
    """
    try:
        request = parse_query(text)
    except ReshapeError as error:
        return {"rejection": _describe_rejection(error, text)}
    message = _build_message(request)
    record: Json = {"snippets": [snippet._asdict() for snippet in write_snippets(text, request, message, listen)]}
    try:
        answer = _ask(request, ask, is_sendable=message is not None)
    except ReshapeError as error:
        if not _concerns_query(error):
            raise
        rejection, drawing = _describe_rejection(error, text), draw_rejection(request.question, error)
        return {**record, "rejection": rejection, "drawing": drawing}
    return {**record, "answer": _describe_answer(answer), "drawing": draw_answer(request.question, answer)}


def _build_message(request: ShapeRequest) -> reshape_pb2.InferShapeRequest | None:
    try:
        return build_infer_request(request)
    except ValueError:
        return None


def _ask(request: ShapeRequest, ask: Ask, *, is_sendable: bool) -> ShapeAnswer:
    # if the query has a dim above 2^63 - 1, the rules reject it here with an error that names the dim
    answer = ask(request)
    if not is_sendable:
        text = "the query contains a number above 2^63 - 1"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return answer


def _concerns_query(error: ReshapeError) -> bool:
    """Whether the same query would be rejected again. A call is STALLED if its client is gone."""
    if isinstance(error, LimitError):
        return isinstance(error.reason, Reason) and not (error.reason.is_retryable or error.reason is Reason.STALLED)
    return isinstance(error, InvalidRequestError)


def _describe_answer(answer: ShapeAnswer) -> Json:
    dims, origins = answer.dims or (), answer.origins
    return {
        "text": format_dims(answer.dims),
        "dims": [_describe_dim(dim, origins[index : index + 1]) for index, dim in enumerate(dims)],
        "conditions": list(map(str, answer.conditions)),
        "conditions_complete": answer.conditions_complete,
    }


def _describe_dim(dim: AnyDim, origins: Sequence[Origin]) -> Json:
    record: Json = {"text": format_dim(dim)}
    for origin in origins:  # the list is empty if the rank was unknown before the answer
        record.update(kind=origin.kind.value, origin=origin.text)
    return record


def _describe_rejection(error: ReshapeError, text: QueryText) -> Json:
    accepted = error.metadata.get("accepted", "")
    return {
        "reason": str(error.reason),
        # The text contains no accepted values, because the page shows them separately.
        "message": error.message.removesuffix(f"; accepted: {accepted}"),
        "accepted": accepted,
        "blamed": find_wrong_item(text, error)._asdict(),
    }
