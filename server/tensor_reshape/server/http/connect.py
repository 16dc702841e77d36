"""The Connect protocol (connectrpc.com) for unary calls. A request with the header `connect-protocol-version` uses it.

- The paths and the JSON are those of the JSON methods. The body may also be a protobuf message (`application/proto`).
  The response has the type of the request.
- An error is a JSON object with a code in lower case and the details of the status as base64.
- `connect-timeout-ms` is the deadline of the call. After the deadline, the call ends as if the client had disconnected.
"""

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType

from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Send

from tensor_reshape.rules.errors import Reason
from tensor_reshape.server.calls.statuses import Failure
from tensor_reshape.server.http.requests import CLOSE, CONNECT_VERSION, MAX_BYTES, is_compressed, read_content_type
from tensor_reshape.server.http.responses import (
    DETAILS_POOL,
    HTTP_CODES,
    JSON_TYPE,
    BuildError,
    JsonForm,
    build_document,
    build_error,
    build_headers,
    read_status,
)

PROTO_TYPE = "application/proto"
"""The content type of protobuf messages."""

_TIMEOUT = "connect-timeout-ms"
_TYPES = frozenset({JSON_TYPE, PROTO_TYPE})
_NUMBER = re.compile("[0-9]{1,10}")  # the protocol allows at most ten digits for a timeout
_CODES = {"CANCELLED": "canceled"}  # Connect has another spelling for this code


class ConnectForm(JsonForm):
    """The form of responses to Connect requests."""

    def __init__(self, content_type: str) -> None:
        """Makes responses of a content type. Errors are always JSON."""
        self.content_type = content_type

    def build_rejection(self, failure: Failure) -> Response:
        """Returns the response of a failed call, with all details."""
        status, code = read_status(failure), failure.status.code
        document = {"code": _name_code(code), "message": status.message, "details": [*map(_pack, status.details)]}
        headers = build_headers(failure.status.trailing_metadata)
        if failure.result.reason == Reason.MESSAGE_TOO_LARGE:
            headers |= CLOSE
        return build_document(HTTP_CODES[code], document, headers)


def is_connect(request: Request) -> bool:
    """Whether a request uses the Connect protocol."""
    return CONNECT_VERSION in request.headers


def find_error_builder(request: Request) -> BuildError:
    """Returns the function that builds the errors of the protocol of a request."""
    return build_connect_error if is_connect(request) else build_error


def find_connect_error(request: Request, max_bytes: int) -> Response | None:
    """Checks the headers of a Connect request. Returns an error response, or None if they are valid."""
    headers, media = request.headers, HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    length, timeout = headers.get("content-length", ""), headers.get(_TIMEOUT, "0")
    size = int(length) if _NUMBER.fullmatch(length) else None
    if "transfer-encoding" in headers:  # these are chunks, because `connections` rejects everything else
        size = 0
        request.scope[MAX_BYTES] = max_bytes
    plain = "this server does not accept compressed bodies"
    limit = f"the body has {length} bytes, but the limit is {max_bytes}"
    checks = (
        (headers[CONNECT_VERSION] == "1", "INVALID_ARGUMENT", f"{CONNECT_VERSION} must be 1", None),
        (not is_compressed(request), "UNIMPLEMENTED", plain, None),
        (read_content_type(request)[0] in _TYPES, "INVALID_ARGUMENT", f"use {JSON_TYPE} or {PROTO_TYPE}", media),
        (_NUMBER.fullmatch(timeout), "INVALID_ARGUMENT", f"{_TIMEOUT} must be a number of at most ten digits", None),
        (size is not None, "INVALID_ARGUMENT", "the request needs a Content-Length header or chunks", None),
        (size is None or size <= max_bytes, "RESOURCE_EXHAUSTED", limit, None),
    )
    faults = ((status or HTTP_CODES[code], code, text) for good, code, text, status in checks if not good)
    return next((build_connect_error(*fault) for fault in faults), None)


async def serve_in_time(request: Request, send: Send, serve: Callable[[Send], Awaitable[None]]) -> None:
    """Serves a call until its deadline, and then sends the error of the deadline if no response has begun.

    Args:
        request: the request, whose headers are valid.
        send: the function that sends the response.
        serve: serves the call with the given `send`.
    """
    has_begun = False

    async def watch(event: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(event)

    milliseconds = request.headers.get(_TIMEOUT)
    try:
        async with asyncio.timeout(None if milliseconds is None else int(milliseconds) / 1000):
            await serve(watch)
    except TimeoutError:
        if not has_begun:  # otherwise uvicorn closes the connection if the response is not complete
            text = f"the call took longer than {milliseconds} ms"
            error = build_connect_error(HTTPStatus.GATEWAY_TIMEOUT, "DEADLINE_EXCEEDED", text)
            await error(request.scope, request.receive, send)


def build_connect_error(code: int, name: str, text: str, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """Returns the error of a request that is not a call, and closes the connection, because its body may be endless.

    Args:
        code: the HTTP status.
        name: the name of the gRPC code.
        text: the message, which must not contain texts of the client.
        headers: additional headers.
    """
    return build_document(code, {"code": _name_code(name), "message": text}, {**headers, **CLOSE})


def _name_code(code: str) -> str:
    return _CODES.get(code, code.lower())


def _pack(detail: AnyMessage) -> dict[str, object]:
    """Returns a detail of a status. Readers of `debug` need no protobuf."""
    shown = json_format.MessageToDict(detail, descriptor_pool=DETAILS_POOL)
    return {
        "type": shown.pop("@type").rpartition("/")[2],
        "value": base64.b64encode(detail.value).decode().rstrip("="),
        "debug": shown,
    }
