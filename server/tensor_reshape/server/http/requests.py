"""What a request holds: its metadata and its message; and the requests that are refused for their head.

- A message is the body of a POST, or the query string of a GET.
- A body has a `Content-Length`, so the server knows before it reads a body whether it is too long. A body in chunks is
  refused: each chunk may be a byte, and cost as much as a request.
- A body is `application/json`. Browsers let a page of another origin send this type only if the server agrees, and
  this server never does.
- If an attacker's host name leads to this machine (DNS rebinding), a page of that host is no page of another origin.
  So a server of this machine only is to be called by a name of this machine.
"""

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from tensor_reshape.server.engine.heads import Metadata
from tensor_reshape.server.http.answers import JSON_TYPE, Answer, build_error

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The names by which pages and programs call this machine."""

_LENGTH = re.compile("[0-9]{1,9}")
_PORT = re.compile(":[0-9]{0,5}$")


class DisconnectedError(Exception):
    """The client has gone."""


def read_metadata(scope: Scope) -> Metadata:
    """Returns the headers of a request as gRPC has them, without those that gRPC would not let through."""
    pairs = ((name.decode("latin-1"), value) for name, value in scope["headers"])
    return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]


def find_most_bytes(scope: Scope) -> int:
    """Returns the size of the largest message that a request without a fault (`find_fault`) can have."""
    if scope["method"] != "POST":
        return len(scope["query_string"])
    return int(Headers(scope=scope)["content-length"])


async def read_message(scope: Scope, receive: Receive) -> bytes:
    """Returns the message of a request without a fault.

    Raises:
        DisconnectedError: the client has gone.
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
    """Returns when the client has gone, or has its answer."""
    while (await receive())["type"] != "http.disconnect":
        pass


def has_body(scope: Scope) -> bool:
    """Returns whether a body follows the head of a request."""
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def find_stranger(scope: Scope, hosts: Collection[str]) -> Answer | None:
    """Returns the refusal of a request that no route is to see; None if it may go on.

    Args:
        scope: of the request.
        hosts: the names of this server; empty: any.
    """
    headers = Headers(scope=scope)
    host = headers.get("host", "").lower()
    if hosts and _PORT.sub("", host) not in hosts:
        return build_error(421, "PERMISSION_DENIED", f"this server is known as {', '.join(sorted(hosts))} alone")
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        return build_error(403, "PERMISSION_DENIED", "no page of another origin is let in")
    return _refuse_length() if "transfer-encoding" in headers else None


def find_fault(scope: Scope, max_bytes: int) -> Answer | None:
    """Returns the refusal of a POST whose body is no message of `max_bytes` at most; None if it may go on."""
    if scope["method"] != "POST":
        return None
    headers = Headers(scope=scope)
    length = headers.get("content-length", "")
    if not _LENGTH.fullmatch(length):
        return _refuse_length()
    if int(length) > max_bytes:
        return build_error(413, "RESOURCE_EXHAUSTED", f"the body has {length} bytes; {max_bytes} are admitted")
    if not _is_json(headers):
        return build_error(415, "INVALID_ARGUMENT", f"a body is {JSON_TYPE}, in UTF-8 and not encoded")
    return None


def _refuse_length() -> Answer:
    return build_error(411, "INVALID_ARGUMENT", "a body has its Content-Length, of nine digits at most")


def _is_json(headers: Headers) -> bool:
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    is_plain = headers.get("content-encoding", "identity").lower() == "identity"
    charset = parameters.strip().removeprefix("charset=").strip('"')
    return kind.strip() == JSON_TYPE and charset in {"", "utf-8"} and is_plain
