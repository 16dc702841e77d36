"""The types of ASGI (https://asgi.readthedocs.io), and an HTTP request."""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cached_property
from typing import Any, TypeAlias

from tensor_reshape.server.calls.call_info import Metadata

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


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

    @property
    def host(self) -> str:
        """The address of the peer, or an empty text if the ASGI server does not know it."""
        client = self.scope.get("client")
        return client[0] if client else ""

    @property
    def peer(self) -> str:
        """The name of the connection, in gRPC's notation."""
        client = self.scope.get("client")
        if not client:
            return "unix:"
        host, port = client[:2]
        host = host.removeprefix("::ffff:") if "." in host else host
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    @property
    def metadata(self) -> Metadata:
        """The headers as gRPC metadata. Headers that gRPC does not accept are omitted."""
        pairs = ((name.decode("latin-1"), value) for name, value in self.scope["headers"])
        return [(name, value.decode()) for name, value in pairs if value.isascii() and not name.endswith("-bin")]
