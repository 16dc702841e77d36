"""The types of ASGI (https://asgi.readthedocs.io), and an HTTP request."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

from tensor_reshape.server.calls.call_info import Metadata

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


_LENGTH = re.compile(b"[0-9]{1,10}")
_LINE_BYTES = 24  # a request line has some more bytes than its target
_LOGGER = logging.getLogger(__name__)


class Request:
    """A request without its body.

    Attributes:
        scope: the scope of ASGI.
        receive: the function that returns the next event of the request.
        method: the HTTP method. HEAD is GET, because the server omits the body of its response.
        path: the path, without escapes.
        headers: the values of the headers, by their names in lower case. The last value of a name counts.
    """

    def __init__(self, scope: Scope, receive: Receive) -> None:
        """Reads a request."""
        self.scope, self.receive = scope, receive
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])

    def find(self, name: bytes) -> str:
        """Returns the value of a header, or an empty text without it."""
        return self.headers.get(name, b"").decode("latin-1")

    @cached_property
    def content_type(self) -> str:
        """The content type in lower case, without its parameters."""
        return self.find(b"content-type").partition(";")[0].strip().lower()

    @cached_property
    def length(self) -> int | None:
        """The size of the body, or None if the body has chunks. A number of more than ten digits counts as 10^10."""
        if b"transfer-encoding" in self.headers:
            return None
        length = self.headers.get(b"content-length", b"0")
        return int(length) if _LENGTH.fullmatch(length) else 10**10

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
