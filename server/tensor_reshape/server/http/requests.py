"""What comes over HTTP, read: whose it is, what is in its head, and its message; and which requests are none.

- A message is the body of a POST, or what is behind the question mark of a GET.
- How long a body is has to be said before it, so that one that is too long, or never ends, is not begun to be read.
- A body is `application/json`. A page of another origin may send other types without asking, and this one only where it
  is let, which it never is.
- A page whose name has been made to lead here (DNS rebinding) names a host that a server of this machine alone does not
  have, and is refused.
"""

import re
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers
from starlette.types import Receive, Scope

from tensor_reshape.server.engine.heads import Metadata
from tensor_reshape.server.http.answers import JSON_TYPE, Answer, build_error

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""How a page or a program names this machine."""

_LENGTH = re.compile("[0-9]{1,9}")
_PORT = re.compile(":[0-9]{0,5}$")


class DisconnectedError(Exception):
    """The caller has gone before its message was there."""


def read_metadata(scope: Scope) -> Metadata:
    """Returns the headers of a request as gRPC has them: those that it would not let through are left out."""
    pairs = ((name.decode("latin-1"), value) for name, value in scope["headers"])
    return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]


def find_most_bytes(scope: Scope) -> int:
    """Returns how many bytes the message of a request can have that `find_fault` has passed."""
    if scope["method"] != "POST":
        return len(scope["query_string"])
    return int(Headers(scope=scope)["content-length"])


async def read_message(scope: Scope, receive: Receive) -> bytes:
    """Returns the message of a request that `find_fault` has passed.

    Raises:
        DisconnectedError: the caller has gone.
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


def find_fault(scope: Scope, max_bytes: int) -> Answer | None:
    """Returns what a POST that is no message is answered; None where it is one, of so many bytes at most."""
    headers = Headers(scope=scope)
    if scope["method"] != "POST":
        return None
    length = headers.get("content-length", "")
    if not _LENGTH.fullmatch(length):
        return build_error(411, "INVALID_ARGUMENT", "a body has its Content-Length, of nine digits at most", _LAST)
    if int(length) > max_bytes:
        text = f"the body has {length} bytes; {max_bytes} are admitted"
        return build_error(413, "RESOURCE_EXHAUSTED", text, _LAST)
    if not _is_json(headers):
        return build_error(415, "INVALID_ARGUMENT", f"a body is {JSON_TYPE}, in UTF-8 and not encoded", _LAST)
    return None


def find_stranger(scope: Scope, hosts: Collection[str]) -> Answer | None:
    """Returns what a request is answered that a page of another origin has made; None where none has.

    Args:
        scope: of the request.
        hosts: by which this server is known; empty: whichever it is asked for.
    """
    headers = Headers(scope=scope)
    host = headers.get("host", "").lower()
    if hosts and _PORT.sub("", host) not in hosts:
        return build_error(421, "PERMISSION_DENIED", f"this server is known as {', '.join(sorted(hosts))} alone", _LAST)
    origin = headers.get("origin")
    if origin is not None and origin.lower().partition("://")[2] != host:
        return build_error(403, "PERMISSION_DENIED", "no page of another origin is let in", _LAST)
    return None


def _is_json(headers: Headers) -> bool:
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    is_plain = headers.get("content-encoding", "identity").lower() == "identity"
    charset = parameters.strip().removeprefix("charset=").strip('"')
    return kind.strip() == JSON_TYPE and charset in {"", "utf-8"} and is_plain


_LAST: Mapping[str, str] = {"connection": "close"}
"""Of an answer before the body: what follows on the connection is not read."""
