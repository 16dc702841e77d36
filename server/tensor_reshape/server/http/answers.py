"""HTTP responses: bytes with a status and headers, and how they are sent.

- An error is a `google.rpc.Status` as JSON, with the same details as over gRPC. Its HTTP status is the one that
  `google/rpc/code.proto` lists for its code, except that a body above the limit is 413.
- Trailing metadata of gRPC become headers: the request id keeps its name, and the retry delay is Retry-After.
- Pages of other origins get no access, and browsers do not treat a response as a page, a script or a frame.
- A long response is sent in chunks, each after the one before was sent. Unread bytes therefore stay with the call,
  which can be aborted, and not in a buffer of the connection.
"""

import json
import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from google.protobuf import json_format
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status as StatusMessage
from grpc import StatusCode
from starlette.types import Send

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.engine.statuses import Failure
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

COMMON_HEADERS = MappingProxyType(
    {
        "cache-control": "no-store",
        "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
)
"""The default headers of every response."""

_STATUSES = {str(Reason.MESSAGE_TOO_LARGE): 413}
"""Reasons for which HTTP has a more precise status than the code."""

_PIECE_BYTES = 64 * 1024


class Answer(NamedTuple):
    """One response.

    Attributes:
        code: the HTTP status.
        body: the bytes.
        headers: headers in addition to the default ones, in lower case.
    """

    code: int
    body: bytes
    headers: Mapping[str, str] = MappingProxyType({})


def build_answer(body: bytes, told: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """Returns a successful JSON response; `told` has additional headers."""
    return Answer(HTTP_CODES["OK"], body, {"content-type": JSON_TYPE, **told})


def build_rejection(failure: Failure) -> Answer:
    """Returns the response to a call that fails."""
    trailing = dict(failure.status.trailing_metadata)
    packed = trailing.get(DETAILS_KEY)
    message = StatusMessage(code=failure.status.code.value[0], message=failure.status.details)
    if isinstance(packed, bytes):
        message.ParseFromString(packed)
    code = _STATUSES.get(failure.result.reason, HTTP_CODES[failure.status.code.name])
    headers = {"content-type": JSON_TYPE, **list_told(failure.status.trailing_metadata)}
    if PUSHBACK_KEY in trailing:
        headers["retry-after"] = str(math.ceil(int(trailing[PUSHBACK_KEY]) / 1000))
    if code == HTTP_CODES["UNAUTHENTICATED"]:
        headers["www-authenticate"] = "Bearer"
    return Answer(code, _write(message), headers)


def build_error(code: int, name: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """Returns the response to a request that is not a call.

    Args:
        code: the HTTP status.
        name: the name of the gRPC code.
        text: a sentence for people, without anything that the client has sent.
        headers: headers in addition to the default ones.
    """
    message = StatusMessage(code=StatusCode[name].value[0], message=text)
    return Answer(code, _write(message), {"content-type": JSON_TYPE, **headers})


def list_told(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Returns the trailing metadata that become headers."""
    return {key: str(value) for key, value in metadata if key == REQUEST_ID_KEY}


async def send_answer(answer: Answer, send: Send) -> None:
    """Sends a complete response."""
    headers = {**COMMON_HEADERS, **answer.headers, "content-length": str(len(answer.body))}
    encoded = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.code, "headers": encoded})
    view = memoryview(answer.body)
    for begin in range(0, len(view), _PIECE_BYTES):
        await send({"type": "http.response.body", "body": bytes(view[begin : begin + _PIECE_BYTES]), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _write(message: StatusMessage) -> bytes:
    return json.dumps(json_format.MessageToDict(message, descriptor_pool=_POOL), separators=(",", ":")).encode()


_POOL = error_details_pb2.DESCRIPTOR.pool  # contains the messages of error details
