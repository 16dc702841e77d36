"""Answers over HTTP have their status, their headers and their pieces."""

import json

import grpc
from starlette.types import Message

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError, UnauthenticatedError
from tensor_reshape.server.engine.call_info import CallInfo
from tensor_reshape.server.engine.statuses import build_failure
from tensor_reshape.server.http.answers import HTTP_CODES, Answer, build_answer, build_rejection, send_answer


def reject(error: Exception) -> Answer:
    return build_rejection(build_failure(error, CallInfo("/a/b", [("x-request-id", "mine")])))


def test_every_code_and_every_reason_has_a_status():
    assert HTTP_CODES.keys() == {code.name for code in grpc.StatusCode}
    for reason in Reason:
        answer = reject(ReshapeError("text", reason=reason))
        assert answer.code == (413 if reason is Reason.MESSAGE_TOO_LARGE else HTTP_CODES[reason.code_name]), reason
        assert json.loads(answer.body)["details"][0]["reason"] == reason
        assert answer.headers["x-request-id"] == "mine"


def test_rejection_for_a_time_has_the_seconds_until_a_retry():
    rejection = LimitError.of(Reason.QUOTA_EXCEEDED, "text")
    rejection.retry_seconds = 1.25
    answer = reject(rejection)
    assert (answer.code, answer.headers["retry-after"]) == (429, "2")
    assert json.loads(answer.body)["details"][1]["retryDelay"] == "1.250s"


def test_rejection_without_identity_names_the_scheme():
    answer = reject(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "text"))
    assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")


async def test_long_response_is_sent_in_chunks():
    for size in (0, 1, 65536, 200_000):
        sent = list[Message]()

        async def send(event: Message, sent: list[Message] = sent) -> None:
            sent.append(event)

        await send_answer(build_answer(bytes(size), {"x-a": "b"}), send)
        start, *pieces = sent
        assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"%d" % size)
        assert dict(start["headers"])[b"x-a"] == b"b"
        assert b"".join(piece["body"] for piece in pieces) == bytes(size)
        assert max(len(piece["body"]) for piece in pieces) <= 65536
        assert [piece.get("more_body", False) for piece in pieces] == [True] * (len(pieces) - 1) + [False]
