"""The drawing of a query, whether the query is accepted or rejected."""

import pytest

from tensor_reshape.explorer.drawings import draw_answer, draw_rejection
from tensor_reshape.explorer.pictures import draw_question
from tensor_reshape.rules.errors import InvalidRequestError, LimitError, PermissionDeniedError, Reason, ReshapeError
from tensor_reshape.rules.inference import answer_question
from tensor_reshape.rules.operations import STATIC_RESHAPE
from tensor_reshape.rules.questions import ShapeAnswer, ShapeRequest
from written_questions import write_question

REQUEST = ShapeRequest(write_question(STATIC_RESHAPE, "2 3 4", "0 -1", True), explain=True)


def draw_rejected(error: ReshapeError) -> str:
    def reject(_request: ShapeRequest) -> ShapeAnswer:
        raise error

    return draw_question(REQUEST, reject)


def test_accepted_query_is_drawn_with_its_answer():
    assert draw_question(REQUEST, answer_question) == draw_answer(REQUEST.question, answer_question(REQUEST))


def test_rejected_query_is_drawn_with_its_rejection():
    for error in (
        InvalidRequestError("no", reason=Reason.NOT_DIVISIBLE, field="shape[1]"),
        LimitError("long", reason=Reason.RANK_LIMIT_EXCEEDED, field="shape"),
    ):
        assert draw_rejected(error) == draw_rejection(REQUEST.question, error)


def test_drawing_raises_call_errors_such_as_server_busy():
    for error in (
        LimitError("full", reason=Reason.SERVER_BUSY),
        LimitError("many", reason=Reason.QUOTA_EXCEEDED),
        LimitError("gone", reason=Reason.STALLED),
        PermissionDeniedError("no", reason=Reason.PERMISSION_DENIED),
        ReshapeError("internal error", reason=Reason.INTERNAL_ERROR),
    ):
        with pytest.raises(type(error)) as caught:
            draw_rejected(error)
        assert caught.value is error
