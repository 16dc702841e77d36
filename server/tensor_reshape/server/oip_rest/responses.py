"""The form of responses over REST, and their headers."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.responses import Response

from tensor_reshape.server.engine.statuses import Failure
from tensor_reshape.server.http.responses import JsonForm, build_document, build_headers, find_code

LENGTH_HEADER = "inference-header-content-length"
"""The header with the number of bytes of the JSON, if elements follow it as bytes."""

REASON_HEADER = "tensor-reshape-reason"
"""The header with the permanent reason of an error."""

BINARY_TYPE = "application/octet-stream"
"""The content type of JSON that is followed by bytes."""


class RestForm(JsonForm):
    """The form of the responses of all methods but inference."""

    def build_rejection(self, failure: Failure) -> Response:
        """Returns the response of a failed call, with the reason in its text and in a header."""
        headers = build_headers(failure.status.trailing_metadata)
        return build_error(find_code(failure), failure.result.reason, failure.status.details, headers)


def build_error(code: int, reason: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Returns an error response.

    Args:
        code: the HTTP status.
        reason: the reason, or an empty text if the error has none.
        text: an explanation.
        headers: additional headers.
    """
    named = {REASON_HEADER: str(reason)} if reason else {}
    return build_document(code, {"error": f"{reason}: {text}" if reason else text}, {**headers, **named})
