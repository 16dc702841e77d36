"""Status, headers and bodies of responses."""

import json
from http import HTTPStatus

import grpc
import pytest

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError, UnauthenticatedError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import Failure, build_failure
from tensor_reshape.server.http.asgi import (
    HTTP_CODES,
    REASON_HEADER,
    Form,
    HttpError,
    Reply,
    build_headers,
    write_connect,
    write_failure,
    write_inference,
    write_status,
)

FORMS = pytest.mark.parametrize(
    "form", [write_status, write_connect, write_inference], ids=["json", "connect", "inference"]
)


def reject(error: Exception, form: Form = write_status) -> Reply:
    return write_failure(build_failure(error, CallInfo("/a/b", [("x-request-id", "mine")])), form)


def read(reply: Reply) -> dict[str, object]:
    document: dict[str, object] = json.loads(b"".join(reply.parts))
    return document


def test_every_grpc_code_has_an_http_status():
    assert HTTP_CODES.keys() == {code.name for code in grpc.StatusCode}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_an_http_status(reason: Reason):
    reply = reject(ReshapeError("text", reason=reason))
    others = {Reason.MESSAGE_TOO_LARGE: 413, Reason.STALLED: 408}
    assert reply.status == others.get(reason, HTTP_CODES[reason.code_name])
    assert read(reply)["details"][0]["reason"] == reason  # type: ignore[index]
    assert reply.headers["x-request-id"] == "mine"


@FORMS
def test_retryable_error_has_its_delay_in_whole_seconds(form: Form):
    rejection = LimitError.of(Reason.QUOTA_EXCEEDED, "text")
    rejection.retry_seconds = 1.25
    reply = reject(rejection, form)
    assert (reply.status, reply.headers["retry-after"]) == (429, "2")


def test_retry_delay_is_also_a_detail():
    rejection = LimitError.of(Reason.QUOTA_EXCEEDED, "text")
    rejection.retry_seconds = 1.25
    assert read(reject(rejection))["details"][1]["retryDelay"] == "1.250s"  # type: ignore[index]


@FORMS
def test_unauthenticated_error_says_how_to_authenticate(form: Form):
    reply = reject(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "text"), form)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")


@FORMS
def test_bug_has_no_text_of_python(form: Form):
    reply = reject(ValueError("secret"), form)
    assert reply.status == 500
    assert b"secret" not in b"".join(reply.parts)
    assert b"internal error" in b"".join(reply.parts)


def test_connect_spells_cancelled_with_one_l():
    error = HttpError(HTTPStatus.BAD_REQUEST, "CANCELLED", "text")
    assert read(write_failure(Failure(error.status, error.result), write_connect, error))["code"] == "canceled"


def test_inference_error_has_its_reason_in_text_and_header():
    reply = reject(ReshapeError("no token", reason=Reason.UNAUTHENTICATED), write_inference)
    assert read(reply) == {"error": "UNAUTHENTICATED: no token"}
    assert reply.headers[REASON_HEADER] == "UNAUTHENTICATED"


@FORMS
def test_error_of_http_has_its_status_and_headers_but_no_reason(form: Form):
    error = HttpError(HTTPStatus.CONFLICT, "ABORTED", "text", {"a": "b"})
    reply = write_failure(Failure(error.status, error.result), form, error)
    assert (reply.status, reply.headers["a"]) == (409, "b")
    assert not {"details", "reason"} & {name for name, value in read(reply).items() if value}


def test_only_known_metadata_becomes_headers():
    assert build_headers([("x-request-id", "mine"), ("x-other", "a")]) == {"x-request-id": "mine"}


def test_size_of_a_reply_counts_all_parts():
    assert Reply(200, (b"ab", memoryview(b"cde"))).size == 5
