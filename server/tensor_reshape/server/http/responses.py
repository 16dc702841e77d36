"""The HTTP responses of calls and of rejected requests.

- An error is a `google.rpc.Status` as JSON, with the same details as over gRPC. Each gRPC code has the HTTP status that
  `google/rpc/code.proto` defines. The only exception is a request with a body above the size limit, which gets the
  status 413.
- Two entries of gRPC's trailing metadata become HTTP headers. The request id becomes a header of the same name, and the
  retry delay becomes the header `Retry-After`.
"""

import json
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from google.protobuf import json_format
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status as StatusMessage
from grpc import StatusCode
from starlette.responses import Response

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.call_info import Metadata
from tensor_reshape.server.calls.statuses import Failure
from tensor_reshape.wire.request_ids import REQUEST_ID_KEY
from tensor_reshape.wire.status import DETAILS_KEY, PUSHBACK_KEY

JSON_TYPE = "application/json"

HTTP_CODES: Mapping[str, int] = MappingProxyType(
    {
        "OK": 200,
        "CANCELLED": 499,
        "UNKNOWN": 500,
        "INVALID_ARGUMENT": 400,
        "DEADLINE_EXCEEDED": 504,
        "NOT_FOUND": 404,
        "ALREADY_EXISTS": 409,
        "PERMISSION_DENIED": 403,
        "RESOURCE_EXHAUSTED": 429,
        "FAILED_PRECONDITION": 400,
        "ABORTED": 409,
        "OUT_OF_RANGE": 400,
        "UNIMPLEMENTED": 501,
        "INTERNAL": 500,
        "UNAVAILABLE": 503,
        "DATA_LOSS": 500,
        "UNAUTHENTICATED": 401,
    }
)
"""The HTTP status of each gRPC code, from google/rpc/code.proto."""

BuildError = Callable[..., Response]
"""Function with the arguments of `build_error`, which builds the error of another protocol."""

DETAILS_POOL = error_details_pb2.DESCRIPTOR.pool
"""The descriptor pool that contains the messages of error details."""


class Form(Protocol):
    """The form in which a protocol writes the responses of a call."""

    def build_response(self, body: bytes, metadata: Metadata = ()) -> Response:
        """Returns the response of a successful call. `body` is the result of the method."""

    def build_rejection(self, failure: Failure) -> Response:
        """Returns the response of a failed call."""


class JsonForm:
    """The form of JSON with `google.rpc.Status` as the error. Other forms differ in their errors or content types."""

    content_type = JSON_TYPE

    def build_response(self, body: bytes, metadata: Metadata = ()) -> Response:
        """Returns the response of a successful call. A request id in `metadata` becomes a header."""
        return Response(body, HTTP_CODES["OK"], build_headers(metadata), self.content_type)

    def build_rejection(self, failure: Failure) -> Response:
        """Returns the response of a failed call, with all details."""
        return _build_status(find_code(failure), read_status(failure), build_headers(failure.status.trailing_metadata))


JSON_FORM = JsonForm()


def read_status(failure: Failure) -> StatusMessage:
    """Returns the status of a failed call, with its details."""
    packed = dict(failure.status.trailing_metadata).get(DETAILS_KEY)
    message = StatusMessage(code=StatusCode[failure.status.code].value[0], message=failure.status.details)
    if isinstance(packed, bytes):
        message.ParseFromString(packed)
    return message


def find_code(failure: Failure) -> int:
    """Returns the HTTP status of a failed call."""
    # A request that is too large gets the HTTP status 413, because it is more precise than the status for the gRPC
    # code.
    return 413 if failure.result.reason == Reason.MESSAGE_TOO_LARGE else HTTP_CODES[failure.status.code]


def build_error(code: int, name: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Returns the response to a request that is not a call.

    Args:
        code: the HTTP status.
        name: the name of the gRPC code.
        text: the message, which must not contain texts of the client.
        headers: additional headers.
    """
    return _build_status(code, StatusMessage(code=StatusCode[name].value[0], message=text), headers)


def build_headers(metadata: Metadata) -> dict[str, str]:
    """Returns the headers for the request id and the retry delay in the trailing metadata of a call."""
    headers = {key: str(value) for key, value in metadata if key == REQUEST_ID_KEY}
    delay = dict(metadata).get(PUSHBACK_KEY)
    if delay is not None:
        headers["retry-after"] = str(math.ceil(int(delay) / 1000))
    return headers


def build_document(code: int, document: object, headers: Mapping[str, str]) -> Response:
    """Returns a response whose body is JSON. A response with the status 401 says how to authenticate."""
    challenge = {"www-authenticate": "Bearer"} if code == HTTP_CODES["UNAUTHENTICATED"] else {}
    return Response(json.dumps(document, separators=(",", ":")), code, {**headers, **challenge}, JSON_TYPE)


def _build_status(code: int, message: StatusMessage, headers: Mapping[str, str]) -> Response:
    return build_document(code, json_format.MessageToDict(message, descriptor_pool=DETAILS_POOL), headers)
