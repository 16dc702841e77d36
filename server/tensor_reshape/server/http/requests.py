"""Reads the metadata and the message of an HTTP request, and checks the headers of the request.

- The message of a request is the body of a POST or the query string of a GET.
- A request with a body needs a `Content-Length` header, so that the server can reject a body above the size limit
  without reading it.
- The server rejects a chunked body, because a chunk of one byte can cost as much as a whole request. The only exception
  is a Connect request, because Connect's client for Node sends chunks over HTTP/1.1.
- The body of a request must have the content type `application/json`. A browser lets a page of another origin send a
  JSON body only if the server allows it. The server allows only the origins of `--http-allow-origin`.
- With DNS rebinding, an attacker's host name resolves to this machine, so the attacker's pages have the same origin as
  the server. A server that only this machine can reach therefore requires a local name in the Host header.
- If the server rejects a body, it closes the connection, because the unread rest of the body may be endless.
"""

import re
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.call_info import Metadata
from tensor_reshape.server.http.responses import JSON_TYPE, BuildError, build_error

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names that local pages and programs use for this machine."""

CONNECT_VERSION = "connect-protocol-version"
"""The header of requests that use the Connect protocol."""

MAX_BYTES = "tensor_reshape.max_bytes"
"""The key of the scope with the maximum size of a chunked body. Other bodies have a `Content-Length`."""

CLOSE = {"connection": "close"}
"""The header of an error whose client may send the rest of a rejected body for ever."""

_LENGTH = re.compile("[0-9]{1,9}")
_PORT = re.compile(":[0-9]{0,5}$")


def read_metadata(request: Request) -> Metadata:
    """Returns the headers of a request as gRPC metadata. Headers that gRPC does not accept are omitted."""
    pairs = ((name.decode("latin-1"), value) for name, value in request.headers.raw)
    return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]


def get_message_size(request: Request) -> int:
    """Returns the message size that the headers of a request announce.

    Call this function only for requests that `find_body_error` accepts.
    """
    if request.method != "POST":
        return len(request.scope["query_string"])
    return int(request.headers.get("content-length", request.scope.get(MAX_BYTES, 0)))


async def read_message(request: Request) -> bytes:
    """Returns the message of a request.

    Raises:
        ClientDisconnect: the client has disconnected.
        LimitError: MESSAGE_TOO_LARGE, for a chunked body.
    """
    if request.method != "POST":
        return bytes(request.scope["query_string"])
    if MAX_BYTES not in request.scope:
        return await request.body()
    parts, size, limit = list[bytes](), 0, request.scope[MAX_BYTES]
    async for part in request.stream():
        size += len(part)
        if size > limit:
            message = f"the body has more than {limit} bytes"
            raise LimitError.of(Reason.MESSAGE_TOO_LARGE, message, limit=limit)
        parts.append(part)
    return b"".join(parts)


async def await_disconnect(request: Request) -> None:
    """Waits until the client has disconnected or has received its response."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def find_origin_error(
    request: Request,
    hosts: Collection[str],
    origins: Collection[str] = frozenset(),
    build: BuildError = build_error,
) -> Response | None:
    """Checks the Host, Origin and Transfer-Encoding headers.

    Returns an error response, or None if these headers are allowed.

    Args:
        request: the request.
        hosts: the names that the Host header may have. An empty collection allows any name.
        origins: the other origins whose pages may use the server, in lower case.
        build: builds the error response.
    """
    host = request.headers.get("host", "").lower()
    if hosts and _PORT.sub("", host) not in hosts:
        return build(421, "PERMISSION_DENIED", f"the Host header must be one of {', '.join(sorted(hosts))}")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host and origin.lower() not in origins:
        return build(403, "PERMISSION_DENIED", "pages of other origins may not use this server")
    may_be_chunked = request.method == "POST" and CONNECT_VERSION in request.headers
    return _reject_length(build) if "transfer-encoding" in request.headers and not may_be_chunked else None


def find_body_error(request: Request, max_bytes: int) -> Response | None:
    """Returns an error response if a POST announces an invalid body or more than `max_bytes`, and None otherwise."""
    if request.method != "POST":
        return None
    length = request.headers.get("content-length", "")
    # A chunked body may be longer than its Content-Length. `find_origin_error` admits chunks in every Connect request.
    if not _LENGTH.fullmatch(length) or "transfer-encoding" in request.headers:
        return _reject_length()
    if int(length) > max_bytes:
        return _reject_body(413, "RESOURCE_EXHAUSTED", f"the body has {length} bytes, but the limit is {max_bytes}")
    if not _is_json(request):
        return _reject_body(415, "INVALID_ARGUMENT", f"the body must be uncompressed {JSON_TYPE} in UTF-8")
    return None


def _reject_length(build: BuildError = build_error) -> Response:
    text = "the request needs a Content-Length header of at most nine digits, and no Transfer-Encoding header"
    return build(411, "INVALID_ARGUMENT", text, CLOSE)


def _reject_body(code: int, name: str, text: str) -> Response:
    return build_error(code, name, text, CLOSE)


def read_content_type(request: Request) -> tuple[str, str]:
    """Returns the content type of a request, and its parameters."""
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    return kind.strip(), parameters.strip()


def is_compressed(request: Request) -> bool:
    """Whether a request says that its body is compressed."""
    return request.headers.get("content-encoding", "identity").lower() != "identity"


def _is_json(request: Request) -> bool:
    kind, parameters = read_content_type(request)
    charset = parameters.removeprefix("charset=").strip('"')
    return kind == JSON_TYPE and charset in {"", "utf-8"} and not is_compressed(request)
