"""The metadata and the message of a request, and the checks of its headers.

- A message is the body of a POST, or the query string of a GET.
- A body needs a `Content-Length`, so that a body above the limit is rejected before it is read. A chunked body is
  rejected, because each chunk may be one byte and cost as much as a request.
- The type of a body is `application/json`. Browsers let a page of another origin send this type only if the server
  agrees, which this server never does.
- If an attacker's host name resolves to this machine (DNS rebinding), its pages have the same origin as the server. A
  server for this machine only therefore requires a local name in the Host header.
"""

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from tensor_reshape.server.engine.call_info import Metadata
from tensor_reshape.server.http.answers import JSON_TYPE, Answer, build_error

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The host names that local pages and programs use for this machine."""

_LENGTH = re.compile("[0-9]{1,9}")
_PORT = re.compile(":[0-9]{0,5}$")


class DisconnectedError(Exception):
    """The client has disconnected."""


def read_metadata(scope: Scope) -> Metadata:
    """Returns the headers of a request as gRPC metadata, without those that gRPC does not accept."""
    pairs = ((name.decode("latin-1"), value) for name, value in scope["headers"])
    return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]


def find_most_bytes(scope: Scope) -> int:
    """Returns the maximum message size of a request that `find_fault` accepts."""
    if scope["method"] != "POST":
        return len(scope["query_string"])
    return int(Headers(scope=scope)["content-length"])


async def read_message(scope: Scope, receive: Receive) -> bytes:
    """Returns the message of a request that `find_fault` accepts.

    Raises:
        DisconnectedError: the client has disconnected.
    """
    if scope["method"] != "POST":
        return bytes(scope["query_string"])
    pieces, goes_on = [], True
    while goes_on:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise DisconnectedError
        pieces.append(event.get("body", b""))
        goes_on = event.get("more_body", False)
    return b"".join(pieces)


async def await_disconnect(receive: Receive) -> None:
    """Returns when the client has disconnected, or has received its response."""
    while (await receive())["type"] != "http.disconnect":
        pass


def has_body(scope: Scope) -> bool:
    """Returns whether a request has a body."""
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def find_stranger(scope: Scope, hosts: Collection[str]) -> Answer | None:
    """Returns the error response to a request that no route may receive; None if the request is accepted.

    Args:
        scope: the ASGI scope of the request.
        hosts: the host names of this server; empty: any.
    """
    headers = Headers(scope=scope)
    host = headers.get("host", "").lower()
    if hosts and _PORT.sub("", host) not in hosts:
        return build_error(421, "PERMISSION_DENIED", f"this server is known as {', '.join(sorted(hosts))} alone")
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        return build_error(403, "PERMISSION_DENIED", "no page of another origin is let in")
    return _reject_length() if "transfer-encoding" in headers else None


def find_fault(scope: Scope, max_bytes: int) -> Answer | None:
    """Returns the error response to a POST with an invalid body or more than `max_bytes`; None for valid requests."""
    if scope["method"] != "POST":
        return None
    headers = Headers(scope=scope)
    length = headers.get("content-length", "")
    if not _LENGTH.fullmatch(length):
        return _reject_length()
    if int(length) > max_bytes:
        return build_error(413, "RESOURCE_EXHAUSTED", f"the body has {length} bytes; {max_bytes} are admitted")
    if not _is_json(headers):
        return build_error(415, "INVALID_ARGUMENT", f"a body is {JSON_TYPE}, in UTF-8 and not encoded")
    return None


def _reject_length() -> Answer:
    return build_error(411, "INVALID_ARGUMENT", "a body has its Content-Length, of nine digits at most")


def _is_json(headers: Headers) -> bool:
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    is_plain = headers.get("content-encoding", "identity").lower() == "identity"
    charset = parameters.strip().removeprefix("charset=").strip('"')
    return kind.strip() == JSON_TYPE and charset in {"", "utf-8"} and is_plain
