"""A request of ASGI (https://asgi.readthedocs.io), its response, and the forms in which the protocols write errors.

- An error of the API is a `google.rpc.Status` as JSON, with the same details as over gRPC. Connect and the Open
  Inference Protocol have other forms.
- Each gRPC code has the HTTP status that `google/rpc/code.proto` defines. Connect has the same table. The exceptions
  are a body above the size limit, which gets the status 413, and a body that arrives too slowly, which gets 408.
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
_LINE_BYTES = 24  # a request line has some more bytes than its target
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
_CONNECT_CODES = {"CANCELLED": "canceled"}  # Connect has another spelling for this code


class HttpRequest:
    """A request without its body.

    Attributes:
        scope: the scope of ASGI.
        receive: the function that returns the next event of the request.
        method: the HTTP method. HEAD is GET, because the server omits the body of its response.
        path: the path, without escapes.
        headers: the values of the headers, by their names in lower case. The last value of a name counts.
        model: the name and the version of a model in the path; empty for other paths.
        reply_headers: further headers of the response.
        is_read: whether the rest of the body is not needed, for example because the whole body has arrived.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Reads a request."""
        self.scope, self.receive = scope, receive
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.model: Mapping[str, str] = {}
        self.reply_headers: Mapping[str, str] = {}
        self.is_read = False

    def find(self, name: bytes) -> str:
        """Returns the value of a header, or an empty text without it."""
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
        """The size of the body, or None if the body has chunks. A number of more than ten digits counts as 10^10."""
        if b"transfer-encoding" in self.headers:
            return None
        length = self.find_number(b"content-length")
        return length if length >= 0 else 10**10

    @property
    def head_size(self) -> int:
        """About the size of the request line and of the headers."""
        target = len(self.scope.get("raw_path") or b"") + len(self.scope["query_string"])
        return _LINE_BYTES + target + sum(len(name) + len(value) + 4 for name, value in self.scope["headers"])

    @property
    def peer(self) -> str:
        """The name of the connection, in gRPC's notation."""
        return name_peer(self.scope.get("client"))

    @property
    def metadata(self) -> Metadata:
        """The headers as gRPC metadata. Headers that gRPC does not accept are omitted."""
        pairs = ((name.decode("latin-1"), value) for name, value in self.scope["headers"])
        return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]

    async def stream_body(self) -> AsyncIterator[bytes]:
        """Yields the parts of the body.

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
        """Reads the rest of the body for some seconds. A client that still sends would otherwise lose the response."""
        if self.is_read or b"expect" in self.headers:  # the client waits for the status before it sends the body
            return
        with suppress(TimeoutError, ClientGoneError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                async for _ in self.stream_body():
                    pass


class ClientGoneError(Exception):
    """The client has disconnected."""


def name_peer(address: Sequence[Any] | None) -> str:
    """Returns gRPC's name of a connection. The address has a host and a port, or is empty for a unix socket."""
    if not address:
        return "unix:"
    host, port = address[:2]
    host = host.removeprefix("::ffff:") if "." in host else host
    return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"


async def repeat(seconds: float, task: Callable[[], object]) -> None:
    """Calls `task` every `seconds`."""
    while True:
        try:
            task()
        except Exception:
            # The loop continues after a bug of a task, because the server needs the next calls.
            _LOGGER.exception("bug")
        await asyncio.sleep(seconds)


class Reply(NamedTuple):
    """A response.

    Attributes:
        status: the HTTP status.
        parts: the parts of the body.
        content_type: the content type, or an empty text without a body.
        headers: further headers.
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
        """Returns the response with further headers."""
        return self._replace(headers={**self.headers, **headers})


class HttpError(StatusError):
    """Ends a request with an HTTP status that the table of gRPC's codes does not have.

    Attributes:
        http_status: the HTTP status.
        headers: further headers.
    """

    def __init__(
        self,
        http_status: HTTPStatus,
        code: str,
        text: str,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Makes an error. Its message `text` must not contain texts of the client."""
        super().__init__(Status(code, text, ()))
        self.http_status, self.headers = http_status, headers


Form: TypeAlias = Callable[[int, Failure, Mapping[str, str]], Reply]
"""The form in which a protocol writes an error: a function of the HTTP status, the error and the headers."""


def write_status(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response of a failed request in the form of the API: a `google.rpc.Status` as JSON."""
    message = _read_status(failure)
    return reply_json(status, json_format.MessageToDict(message, descriptor_pool=_DETAILS_POOL), headers)


def write_connect(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response of a failed request for Connect: a code in lower case, and the details as base64."""
    message, code = _read_status(failure), failure.status.code
    named = {"code": _CONNECT_CODES.get(code, code.lower()), "message": message.message}
    return reply_json(status, {**named, "details": [*map(_pack, message.details)]}, headers)


def write_inference(status: int, failure: Failure, headers: Mapping[str, str]) -> Reply:
    """Returns the response of a failed request for the Open Inference Protocol: a text, and the reason in a header."""
    reason, text = failure.result.reason, failure.status.details
    named = {REASON_HEADER: reason} if reason else {}
    return reply_json(status, {"error": f"{reason}: {text}" if reason else text}, {**headers, **named})


def find_form(request: HttpRequest) -> Form:
    """Returns the form of errors of a request."""
    if request.path.startswith("/v2"):
        return write_inference
    return write_connect if CONNECT_VERSION in request.headers else write_status


def write_failure(failure: Failure, form: Form, error: Exception | None = None) -> Reply:
    """Returns the response of a failed request. If `error` is an `HttpError`, it has the status and further headers."""
    headers = build_headers(failure.status.trailing_metadata)
    if isinstance(error, HttpError):
        return form(error.http_status, failure, {**headers, **error.headers})
    status = _REASON_CODES.get(failure.result.reason) or HTTP_CODES[failure.status.code]
    return form(status, failure, headers)


def reply_json(status: int, document: object, headers: Mapping[str, str] = MappingProxyType({})) -> Reply:
    """Returns a response whose body is JSON. A response with the status 401 says how to authenticate."""
    challenge = {"www-authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    return Reply(status, (write_json(document),), JSON_TYPE, {**headers, **challenge})


def build_headers(metadata: Metadata) -> dict[str, str]:
    """Returns the headers for the request id and the retry delay in the trailing metadata of a call."""
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
    """Returns a detail of a status for Connect. Readers of `debug` need no protobuf."""
    shown = json_format.MessageToDict(detail, descriptor_pool=_DETAILS_POOL)
    return {
        "type": shown.pop("@type").rpartition("/")[2],
        "value": base64.b64encode(detail.value).decode().rstrip("="),
        "debug": shown,
    }
