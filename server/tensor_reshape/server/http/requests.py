"""The metadata and the message of a request, and the checks of its headers.

- A message is the body of a POST, or the query string of a GET.
- A body needs a `Content-Length`, so that a body above the limit is rejected before it is read. A chunked body is
  rejected, because each chunk may be one byte and cost as much as a request.
- The type of a body is `application/json`. Browsers let a page of another origin send this type only if the server
  agrees, which this server never does.
- If an attacker's host name resolves to this machine (DNS rebinding), its pages have the same origin as the server. A
  server that only this machine can reach therefore requires a local name in the Host header.
- The rejection of a body closes the connection, because its unread rest could be endless.
"""

import re
from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from tensor_reshape.server.engine.call_info import Metadata
from tensor_reshape.server.http.responses import JSON_TYPE, build_error

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names that local pages and programs use for this machine."""

_LENGTH = re.compile("[0-9]{1,9}")
_PORT = re.compile(":[0-9]{0,5}$")


def read_metadata(request: Request) -> Metadata:
    """Returns the headers of a request as gRPC metadata, without those that gRPC does not accept."""
    pairs = ((name.decode("latin-1"), value) for name, value in request.headers.raw)
    return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]


def get_message_size(request: Request) -> int:
    """Returns the maximum message size of a request without a body error."""
    if request.method != "POST":
        return len(request.scope["query_string"])
    return int(request.headers["content-length"])


async def read_message(request: Request) -> bytes:
    """Returns the message of a request.

    Raises:
        ClientDisconnect: the client has disconnected.
    """
    return await request.body() if request.method == "POST" else bytes(request.scope["query_string"])


async def await_disconnect(request: Request) -> None:
    """Returns when the client has disconnected, or has received its response."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def find_origin_error(request: Request, hosts: Collection[str]) -> Response | None:
    """Returns the error response to a request that no route may receive; None if the request is accepted.

    Args:
        request: the request.
        hosts: the host names of this server; empty: any.
    """
    host = request.headers.get("host", "").lower()
    if hosts and _PORT.sub("", host) not in hosts:
        return build_error(421, "PERMISSION_DENIED", f"the Host header must be one of {', '.join(sorted(hosts))}")
    origin = request.headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        return build_error(403, "PERMISSION_DENIED", "pages of other origins may not use this server")
    return _reject_length() if "transfer-encoding" in request.headers else None


def find_body_error(request: Request, max_bytes: int) -> Response | None:
    """Returns the error response to a POST with an invalid body or more than `max_bytes`; None for valid requests."""
    if request.method != "POST":
        return None
    length = request.headers.get("content-length", "")
    if not _LENGTH.fullmatch(length):
        return _reject_length()
    if int(length) > max_bytes:
        return _reject_body(413, "RESOURCE_EXHAUSTED", f"the body has {length} bytes, but the limit is {max_bytes}")
    if not _is_json(request):
        return _reject_body(415, "INVALID_ARGUMENT", f"the body must be {JSON_TYPE} in UTF-8, without an encoding")
    return None


def _reject_length() -> Response:
    return _reject_body(411, "INVALID_ARGUMENT", "a body needs a Content-Length of at most nine digits")


def _reject_body(code: int, name: str, text: str) -> Response:
    return build_error(code, name, text, {"connection": "close"})


def _is_json(request: Request) -> bool:
    kind, _, parameters = request.headers.get("content-type", "").lower().partition(";")
    is_plain = request.headers.get("content-encoding", "identity").lower() == "identity"
    charset = parameters.strip().removeprefix("charset=").strip('"')
    return kind.strip() == JSON_TYPE and charset in {"", "utf-8"} and is_plain
