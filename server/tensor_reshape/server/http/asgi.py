"""Defines the request and the response for ASGI (https://asgi.readthedocs.io), and how each protocol writes errors.

- An error of the API is a `google.rpc.Status` as JSON, with the same details as over gRPC. Connect and the Open
  Inference Protocol write errors in other forms.
- Each gRPC code has the HTTP status that `google/rpc/code.proto` defines. Connect uses the same statuses. There are two
  exceptions. A body above the size limit gets the status 413, and a body that arrives too slowly gets the status 408.
- Two entries of gRPC's trailing metadata become headers: the request id, and the retry delay as `Retry-After`.
"""

import asyncio
import base64
import logging
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from functools import cached_property
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2
from google.rpc.code_pb2 import Code
from google.rpc.status_pb2 import Status as StatusMessage

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.call_info import Metadata
from tensor_reshape.server.calls.statuses import Failure, StatusError
from tensor_reshape.wire.json_messages import write_json
from tensor_reshape.wire.status import DETAILS_KEY, PUSHBACK_KEY, REQUEST_ID_KEY, Status

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


_NUMBER = re.compile(b"[0-9]{1,10}")
_DISCARD_SECONDS = 5.0
_LINE_BYTES = 24  # number of bytes of a request line without its target
_LOGGER = logging.getLogger(__name__)


JSON_TYPE, PROTO_TYPE, BINARY_TYPE = "application/json", "application/proto", "application/octet-stream"

CONNECT_VERSION = b"connect-protocol-version"
"""The header of requests that use the Connect protocol."""

REASON_HEADER = "tensor-reshape-reason"
"""The header with the permanent reason of an error of the Open Inference Protocol."""

LENGTH_HEADER = "inference-header-content-length"
"""The header with the number of bytes of the JSON, if elements follow the JSON as bytes."""

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

_REASON_CODES: Mapping[str, int] = {Reason.MESSAGE_TOO_LARGE: 413, Reason.STALLED: 408}
_DETAILS_POOL = error_details_pb2.DESCRIPTOR.pool
_CONNECT_CODES = {"CANCELLED": "canceled"}  # Connect spells this code differently


class HttpRequest:
    """An HTTP request, with its headers but without its body.

    Attributes:
        scope: ASGI's description of the request.
        receive: ASGI's function that returns the next event of the request, such as a part of the body.
        method: the HTTP method. A HEAD request has the method GET here, because the ASGI server omits the body of the
            response.
        path: the path of the URL. Its percent-encoded characters are decoded.
        headers: maps each header name in lower case to its value. If a header occurs several times, the last value
            counts.
        model: the name and the version of the model in the path. Empty if the path contains no model.
        reply_headers: headers that are added to the response, for example for an allowed origin.
        is_read: whether the whole body has arrived.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Reads the method, the path and the headers from the scope."""
        self.scope, self.receive = scope, receive
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.model: Mapping[str, str] = {}
        self.reply_headers: Mapping[str, str] = {}
        self.is_read = False

    def find(self, name: bytes) -> str:
        """Returns the value of a header, or an empty text if the request does not have the header."""
        return self.headers.get(name, b"").decode("latin-1")

    def find_number(self, name: bytes, default: int = 0) -> int:
        """Returns the number in a header, or -1 if the header is not a number of at most ten digits."""
        value = self.headers.get(name, b"%d" % default)
        return int(value) if _NUMBER.fullmatch(value) else -1

    @cached_property
    def content_type(self) -> str:
        """The content type in lower case, without its parameters."""
        return self.find(b"content-type").partition(";")[0].strip().lower()

    @cached_property
    def length(self) -> int | None:
        """The number of bytes of the body, or None if the body is sent in chunks.

        A Content-Length header that is not a number of at most ten digits counts as 10^10.
        """
        if b"transfer-encoding" in self.headers:
            return None
        length = self.find_number(b"content-length")
        return length if length >= 0 else 10**10

    @property
    def head_size(self) -> int:
        """The approximate number of bytes of the request line and the headers."""
        target = len(self.scope.get("raw_path") or b"") + len(self.scope["query_string"])
        return _LINE_BYTES + target + sum(len(name) + len(value) + 4 for name, value in self.scope["headers"])

    @property
    def peer(self) -> str:
        """The client's address in gRPC's notation, for example `ipv4:127.0.0.1:54321`."""
        return name_peer(self.scope.get("client"))

    @property
    def metadata(self) -> Metadata:
        """The headers in the form of gRPC metadata. Headers that are not valid metadata for gRPC are omitted."""
        pairs = ((name.decode("latin-1"), value) for name, value in self.scope["headers"])
        return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yields the parts of the body as they arrive.

        Raises:
            ClientGoneError: the client has disconnected.
        """
        while not self.is_read:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                raise ClientGoneError
            self.is_read = not event.get("more_body", False)
            yield event.get("body", b"")

    async def discard_body(self) -> None:
        """Reads and discards the rest of the body for a few seconds.

        Without this, a client that is still sending its body would lose the response.
        """
        if self.is_read or b"expect" in self.headers:  # the client sends no body before it gets a status
            return
        with suppress(TimeoutError, ClientGoneError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                async for _ in self.stream_body():
                    pass


class ClientGoneError(Exception):
    """The client has disconnected."""


def name_peer(address: Sequence[Any] | None) -> str:
    """Returns a client's address in gRPC's notation. `address` is a host and a port, or empty for a unix socket."""
    if not address:
        return "unix:"
    host, port = address[:2]
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


async def repeat(seconds: float, task: Callable[[], object]) -> None:
    """Calls `task` every `seconds` seconds, without end."""
    while True:
        try:
            task()
        except Exception:
            # If a task raises an error because of a bug, the loop continues, because the server needs the later calls
            # of the task.
            _LOGGER.exception("bug")
        await asyncio.sleep(seconds)


class Reply(NamedTuple):
    """The response to an HTTP request.

    Attributes:
        status: the HTTP status.
        parts: the parts of the body, which are sent one after the other.
        content_type: the value of the Content-Type header, or an empty text if the response has no body.
        headers: the other headers of the response.
    """

    status: int
    parts: Sequence[bytes | memoryview]
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = MappingProxyType({})

    @property
    def size(self) -> int:
        """The number of bytes of the body."""
        return sum(map(len, self.parts))

    def add_headers(self, headers: Mapping[str, str]) -> "Reply":
        """Returns a copy of the response with additional headers."""
        return self._replace(headers={**self.headers, **headers})


class HttpError(StatusError):
    """Ends a request with an HTTP status that may differ from the one in `HTTP_CODES` for the gRPC code.

    Attributes:
        http_status: the HTTP status of the response.
        headers: headers that are added to the response.
    """

    def __init__(
        self,
        http_status: HTTPStatus,
        code: str,
        text: str,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Creates an error with the message `text`, which must not contain text from the client."""
        super().__init__(Status(code, text, ()))
        self.http_status, self.headers = http_status, headers


Form: TypeAlias = Callable[[int, Failure, Mapping[str, str]], Reply]
"""The form in which a protocol writes an error: a function of the HTTP status, the error and the headers."""


def write_status(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response to a failed request of the API, which is a `google.rpc.Status` as JSON."""
    message = _read_status(failure)
    return reply_json(status, json_format.MessageToDict(message, descriptor_pool=_DETAILS_POOL), headers)


def write_connect(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response to a failed Connect request, with the code in lower case and the details in base64."""
    message, code = _read_status(failure), failure.status.code
    named = {"code": _CONNECT_CODES.get(code, code.lower()), "message": message.message}
    return reply_json(status, {**named, "details": [*map(_pack, message.details)]}, headers)


def write_inference(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response to a failed request of the Open Inference Protocol, with the reason in a header."""
    reason, text = failure.result.reason, failure.status.details
    named = {REASON_HEADER: reason} if reason else {}
    return reply_json(status, {"error": f"{reason}: {text}" if reason else text}, {**headers, **named})


def find_form(request: HttpRequest) -> Form:
    """Returns the function that writes errors in the form of the protocol that the request uses."""
    if request.path.startswith("/v2"):
        return write_inference
    return write_connect if CONNECT_VERSION in request.headers else write_status


def write_failure(failure: Failure, form: Form, error: Exception | None = None) -> Reply:
    """Returns the response to a failed request. If `error` is an `HttpError`, its status and headers are used."""
    headers = build_headers(failure.status.trailing_metadata)
    if isinstance(error, HttpError):
        return form(error.http_status, failure, {**headers, **error.headers})
    status = _REASON_CODES.get(failure.result.reason) or HTTP_CODES[failure.status.code]
    return form(status, failure, headers)


def reply_json(status: int, document: object, headers: Mapping[str, str] = MappingProxyType({})) -> Reply:
    """Returns a response whose body is JSON.

    If the status is 401, a header says that the server needs a bearer token.
    """
    challenge = {"www-authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return Reply(status, (write_json(document),), JSON_TYPE, {**headers, **challenge})


def build_headers(metadata: Metadata) -> dict[str, str]:
    """Returns HTTP headers for the request id and the retry delay, if a call's trailing metadata contain them."""
    headers = {key: str(value) for key, value in metadata if key == REQUEST_ID_KEY}
    delay = dict(metadata).get(PUSHBACK_KEY)
    if delay is not None:
        headers["retry-after"] = str(math.ceil(int(delay) / 1000))
    return headers


def _read_status(failure: Failure) -> StatusMessage:
    packed = dict(failure.status.trailing_metadata).get(DETAILS_KEY)
    if isinstance(packed, bytes):
        return StatusMessage.FromString(packed)
    return StatusMessage(code=Code.Value(failure.status.code), message=failure.status.details)


def _pack(detail: AnyMessage) -> dict[str, object]:
    """Returns one error detail in the form of Connect.

    Its field `debug` contains the detail as JSON, for readers without protobuf.
    """
    shown = json_format.MessageToDict(detail, descriptor_pool=_DETAILS_POOL)
    return {
        "type": shown.pop("@type").rpartition("/")[2],
        "value": base64.b64encode(detail.value).decode().rstrip("="),
        "debug": shown,
    }
