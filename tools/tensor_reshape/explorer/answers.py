"""What the page shows of a typed question: the answer or the rejection, the drawing, and the question as code.

Laws: the rules decide, and here their words are passed on; the service answers through `ask`, as it answers every other
call. A rejection of the question is something to show; one of the call, such as of a full server, is an exception as
everywhere else.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.explorer.snippets import write_snippets
from tensor_reshape.explorer.typed_questions import TypedQuestion, find_blamed, read_question
from tensor_reshape.rules.dims import AnyDim, format_dim, format_dims
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, Reason, ReshapeError
from tensor_reshape.rules.questions import Equality, Origin, ShapeAnswer, ShapeRequest
from tensor_reshape.rules.views import View
from tensor_reshape.v1 import reshape_pb2
from tensor_reshape.wire.inference import build_infer_request

Json: TypeAlias = dict[str, Any]

Ask: TypeAlias = Callable[[ShapeRequest], ShapeAnswer]
"""Answers a question, or raises what the service rejects it for."""


def answer_typed(typed: TypedQuestion, ask: Ask, listen: Sequence[str]) -> Json:
    """Returns all that is to be shown.

    Args:
        typed: the question.
        ask: asks the service.
        listen: where the service is served over gRPC.

    Raises:
        ReshapeError: the call is rejected, whatever the question is.
    """
    try:
        request = read_question(typed)
    except ReshapeError as error:
        return {"rejection": _describe_rejection(error, typed)}
    message = _build_message(request)
    record: Json = {"snippets": [snippet._asdict() for snippet in write_snippets(typed, request, message, listen)]}
    try:
        answer = _ask(request, ask, is_sendable=message is not None)
    except ReshapeError as error:
        if not _is_of_question(error):
            raise
        rejection, drawing = _describe_rejection(error, typed), draw_rejection(request.question, error)
        return {**record, "rejection": rejection, "drawing": drawing}
    return {**record, "answer": _describe_answer(answer), "drawing": draw_answer(request.question, answer)}


def _build_message(request: ShapeRequest) -> reshape_pb2.InferShapeRequest | None:
    try:
        return build_infer_request(request)
    except ValueError:
        return None


def _ask(request: ShapeRequest, ask: Ask, *, is_sendable: bool) -> ShapeAnswer:
    answer = ask(request)  # no dim is larger than an s64: the rules say which one is
    if not is_sendable:
        text = "the query contains a number above 2^63 - 1"
        raise InvalidRequestError.of(Reason.MESSAGE_MALFORMED, text)
    return answer


def _is_of_question(error: ReshapeError) -> bool:
    """Whether the same question would be rejected again, whoever asks."""
    if isinstance(error, LimitError):
        return isinstance(error.reason, Reason) and not error.reason.is_retryable
    return isinstance(error, InvalidRequestError)


def _describe_answer(answer: ShapeAnswer) -> Json:
    dims, origins = answer.dims or (), answer.origins
    return {
        "text": format_dims(answer.dims),
        "dims": [_describe_dim(dim, origins[index : index + 1]) for index, dim in enumerate(dims)],
        "equalities": [_describe_equality(equality) for equality in answer.equalities],
        "view": None if answer.view is None else _describe_view(answer.view),
    }


def _describe_dim(dim: AnyDim, origins: Sequence[Origin]) -> Json:
    record: Json = {"text": format_dim(dim)}
    for origin in origins:  # one, or none where no rank was known before the answer
        record.update(kind=origin.kind.value, origin=origin.text)
    return record


def _describe_equality(equality: Equality) -> str:
    condition = " unless the tensor is empty" if equality.unless_empty else ""
    return f"{equality.left} = {equality.right}{condition}"


def _describe_view(view: View) -> Json:
    strides = None if view.strides is None else list(map(str, view.strides))  # JavaScript's numbers are doubles
    return {"possibility": view.possibility.value, "strides": strides}


def _describe_rejection(error: ReshapeError, typed: TypedQuestion) -> Json:
    accepted = error.metadata.get("accepted", "")
    return {
        "reason": str(error.reason),
        "message": error.message.removesuffix(f"; accepted: {accepted}"),  # which is shown apart
        "accepted": accepted,
        "blamed": find_blamed(typed, error)._asdict(),
    }
