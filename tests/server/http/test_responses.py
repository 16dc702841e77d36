"""Status and headers of responses over HTTP."""

import json

import grpc
from starlette.responses import Response

from tensor_reshape.rules.errors import LimitError, Reason, ReshapeError, UnauthenticatedError
from tensor_reshape.server.calls.call_info import CallInfo
from tensor_reshape.server.calls.statuses import build_failure
from tensor_reshape.server.http.responses import HTTP_CODES, JSON_FORM


def reject(error: Exception) -> Response:
    return JSON_FORM.build_rejection(build_failure(error, CallInfo("/a/b", [("x-request-id", "mine")])))


def test_every_grpc_code_and_reason_has_an_http_status():
    assert HTTP_CODES.keys() == {code.name for code in grpc.StatusCode}
    for reason in Reason:
        response = reject(ReshapeError("text", reason=reason))
        assert response.status_code == (413 if reason is Reason.MESSAGE_TOO_LARGE else HTTP_CODES[reason.code_name]), (
            reason
        )
        assert json.loads(bytes(response.body))["details"][0]["reason"] == reason
        assert response.headers["x-request-id"] == "mine"


def test_retryable_http_error_has_a_retry_after_header():
    rejection = LimitError.of(Reason.QUOTA_EXCEEDED, "text")
    rejection.retry_seconds = 1.25
    response = reject(rejection)
    assert (response.status_code, response.headers["retry-after"]) == (429, "2")
    assert json.loads(bytes(response.body))["details"][1]["retryDelay"] == "1.250s"


def test_http_401_response_has_a_bearer_www_authenticate_header():
    response = reject(UnauthenticatedError.of(Reason.UNAUTHENTICATED, "text"))
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_successful_http_response_has_only_the_request_id_header():
    response = JSON_FORM.build_response(b"{}", [("x-request-id", "mine"), ("x-other", "a")])
    assert (response.status_code, response.body) == (200, b"{}")
    assert (response.headers["x-request-id"], response.headers["content-type"]) == ("mine", "application/json")
    assert "x-other" not in response.headers
