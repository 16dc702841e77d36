"""What is answered over HTTP has the status, the headers and the pieces that it should."""

import json

import grpc
import pytest
from starlette.types import Message

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError, UnauthenticatedError
from tensor_reshape.server.calls.heads import CallHead
from tensor_reshape.server.calls.statuses import choose_end
from tensor_reshape.server.http.answers import HTTP_CODES, Answer, build_answer, build_refusal, send_answer


def refuse(error: Exception) -> Answer:
    return build_refusal(choose_end(error, CallHead("/a/b", [("x-request-id", "mine")])))


def test_every_code_of_grpc_has_one_of_http():
    assert HTTP_CODES.keys() == {code.name for code in grpc.StatusCode}


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_status_with_its_name(reason: Reason):
    answer = refuse(ReshapeError("text", reason=reason))
    assert answer.code == (413 if reason is Reason.MESSAGE_TOO_LARGE else HTTP_CODES[reason.code_name])
    assert json.loads(answer.body)["details"][0]["reason"] == reason
    assert answer.headers["x-request-id"] == "mine"


def test_who_may_come_again_is_told_when():
    refusal = LimitError.of(Reason.QUOTA_EXCEEDED, "text")
    refusal.retry_seconds = 1.25
    answer = refuse(refusal)
    assert (answer.code, answer.headers["retry-after"]) == (429, "2")
    assert json.loads(answer.body)["details"][1]["retryDelay"] == "1.250s"


def test_who_does_not_say_who_he_is_is_told_how():
    answer = refuse(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "text"))
    assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_bug_is_told_without_its_text():
    answer = refuse(ValueError("secret"))
    assert (answer.code, json.loads(answer.body)) == (500, {"code": 13, "message": "internal error"})


@pytest.mark.parametrize("size", [0, 1, 65536, 200_000])
async def test_a_long_answer_is_sent_in_pieces(size: int):
    sent = list[Message]()

    async def send(event: Message) -> None:
        sent.append(event)

    await send_answer(build_answer(bytes(size), {"x-a": "b"}), send)
    start, *pieces = sent
    assert (start["status"], dict(start["headers"])[b"content-length"]) == (200, b"%d" % size)
    assert dict(start["headers"])[b"x-a"] == b"b"
    assert b"".join(piece["body"] for piece in pieces) == bytes(size)
    assert max(len(piece["body"]) for piece in pieces) <= 65536
    assert [piece.get("more_body", False) for piece in pieces] == [True] * (len(pieces) - 1) + [False]
