"""HTTP/1.1 connections, which are uvicorn's connections on h11 with additional limits.

- A port has at most `MAX_CONNECTIONS` connections. At the limit of connections, the port closes one connection to admit
  a new connection.
- If some connections are idle, the port closes the idle connection whose host has the most connections. A new
  connection closes no connection of a host that has as few connections as its own host.
- If all connections are busy, the port closes a busy connection of the host with the most connections. The port rejects
  the new connection instead if its host would otherwise have at least as many connections as any other host.
- One client host therefore cannot use up all connections.
- The headers of a request must arrive within `HEADER_SECONDS`. For the first request of a connection, this time limit
  begins when the connection opens. For a later request, the time limit begins with the first byte of its headers.
- h11 limits the size of headers, and uvicorn limits the time between requests.
- A request gets status 400 if a proxy in front of the server could find the end of the request in another place. A
  client could otherwise smuggle a request past the proxy.
- A chunked body, and requests that a client sends before it has read a response, are read in small parts.
- The class `Connection` overrides only methods that asyncio's protocols define.
"""

import asyncio
import logging
import re
import ssl
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import h11
from starlette.requests import Request
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from tensor_reshape.server.calls.sources import find_address, name_peer
from tensor_reshape.server.transport.options import MAX_METADATA_BYTES

MAX_CONNECTIONS = 256
"""The maximum number of connections of a port. A connection with TLS takes 300 KiB of memory."""

HEADER_SECONDS = 10.0
"""The time limit for the headers of a request, in seconds.

For the first request of a connection, this time includes the TLS handshake.
"""

MAX_AHEAD_BYTES = 64 * 1024
"""The maximum number of bytes of further requests that a connection reads before it has sent a response."""

FindContext = Callable[[], ssl.SSLContext]
"""Function that returns the TLS context for a new connection, with the current certificates."""

# A client that does not read does not complete the shutdown of TLS. By default, asyncio would wait 30 s for such a
# client.
_TLS_END_SECONDS = 1.0
_PIECE_BYTES = 2 * 1024  # uvicorn needs 2 ms for so many bytes, if they are chunks of one byte each
_KEY = "connection"
_PROPERTIES = {"URI": "peer_uri", "DNS": "peer_dns", "email": "peer_email"}
_CERTIFICATE = "x509_pem_cert"
# A line without a carriage return, a folded line, a list of lengths, or two headers that give the length of a body. A
# carriage return before the first byte may have been read earlier. A search for one first character is fast.
_AMBIGUOUS = re.compile(
    rb"""\n ((?<=[^\r]\n) | (?<=\A\n)\Z | [ \t]
    | (content-length|transfer-encoding): ([^\n]*, | .*\n(content-length|transfer-encoding):))""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)
_LOGGER = logging.getLogger(__name__)


class Connection(H11Protocol):
    """One HTTP connection, which only the thread of the event loop uses.

    Attributes:
        name: the name of the peer, in gRPC's format.
        host: the address of the peer, in the form of `sources.find_address`.
        certificate: the client's certificate and the names in it, with the same keys as gRPC's `auth_context`.
    """

    def __init__(self, connections: "Connections", find_context: FindContext | None, **arguments: Any) -> None:
        """Creates the protocol without a transport.

        Args:
            connections: the connections of the port.
            find_context: function that returns the TLS context, or None for plain text.
            arguments: the arguments of uvicorn's protocol.
        """
        super().__init__(**{**arguments, "app_state": {_KEY: self}})
        self.conn = Parser(h11.SERVER, MAX_METADATA_BYTES)
        self.name = self.host = ""
        self.certificate: Mapping[str, Sequence[bytes]] = {}
        self._connections = connections
        self._find_context = find_context
        # even if TLS is used, this is the transport of the TCP connection
        self._socket: asyncio.Transport | None = None
        # this buffer contains data that arrives before uvicorn can read it, and is None later
        self._early_data: bytes | None = b""
        self._waiting = b""  # data that uvicorn has not received yet
        self._header_timer: asyncio.TimerHandle | None = None  # the timer that runs while the server waits for headers

    @property
    def is_busy(self) -> bool:
        """Whether the headers of a request have arrived, but its response is not complete."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def has_unread(self) -> bool:
        """Whether enough data has arrived that uvicorn has not read yet."""
        return bool(self._waiting) or len(self.conn.trailing_data[0]) > MAX_AHEAD_BYTES

    @property
    def _is_chunked(self) -> bool:
        """Whether the body of the current request is chunked."""
        return self.is_busy and _is_chunked(self.cycle.scope["headers"])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to serve, after the TLS handshake if TLS is used (see `asyncio.Protocol`)."""
        self._socket = transport
        try:
            self.name = name_peer(transport.get_extra_info("socket"))
        except OSError:  # this error means that the client has already disconnected
            transport.abort()
            return
        self.host = find_address(self.name)
        if not self._connections.admit(self):
            transport.abort()
            return
        self._update_header_timer()
        if self._find_context is None:
            self._begin(transport)
        else:
            transport.pause_reading()  # reading needs no resume here, because `start_tls` resumes it
            handshake = self.loop.create_task(self._start_tls(transport, self._find_context))
            # The set of tasks in uvicorn keeps a reference to the task, which prevents its garbage collection.
            self.tasks.add(handshake)
            handshake.add_done_callback(self.tasks.discard)

    async def _start_tls(self, transport: asyncio.Transport, find_context: FindContext) -> None:
        secure: asyncio.Transport | None = None
        try:
            secure = await self.loop.start_tls(
                transport, self, find_context(), server_side=True, ssl_shutdown_timeout=_TLS_END_SECONDS
            )
        except OSError:
            # The client has disconnected, or the TLS handshake has failed, for example because the TLS versions do not
            # match.
            pass
        except Exception:
            _LOGGER.exception("bug")
        finally:
            if secure is None:
                self.abort()
            else:
                self._begin(secure)

    def _begin(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.flow = _Flow(self, transport)
        # With these limits of 1 and 0 bytes, `flow.drain` waits until the operating system has accepted the whole
        # response.
        transport.set_write_buffer_limits(1, 0)
        self.certificate = read_certificate(transport)
        early, self._early_data = self._early_data, None
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._early_data is not None:  # before `start_tls` returns, it may deliver data that follows the handshake
            self._early_data += data
            return
        is_waiting, self._waiting = bool(self._waiting), self._waiting + data if self._waiting else data
        if not is_waiting:  # otherwise, the connection already waits for its turn
            self.feed()

    def feed(self) -> None:
        """Passes waiting data to uvicorn. If data of a chunked body is left, the connection waits for its turn."""
        while self._waiting and not self.transport.is_closing():
            piece = self._waiting[:_PIECE_BYTES] if self._is_chunked or not self.is_busy else self._waiting
            self._waiting = self._waiting[len(piece) :]
            try:
                super().data_received(piece)
            except h11.LocalProtocolError:  # uvicorn cannot send status 400, because the response has already begun
                self.transport.close()
            if self._waiting and self._is_chunked:
                self.flow.pause_reading()
                self._connections.take_turns(self)
                return
        self._waiting = b""
        self._update_header_timer()
        if self._is_chunked:
            self.flow.resume_reading()  # uvicorn pauses again if the call has not read the body so far

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        del exc
        if self._early_data is None:
            # uvicorn gets None instead of the exception, because it would leave its idle timer running after an
            # exception.
            super().connection_lost(None)
        self._remove()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._remove()
        if self._socket is not None:
            self._socket.abort()

    def _update_header_timer(self) -> None:
        """Stops the timer for headers if all headers have arrived, and otherwise makes sure that this timer runs."""
        if self.is_busy:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.abort)

    def _remove(self) -> None:
        self._connections.discard(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class Parser(h11.Connection):
    """h11's parser, which also rejects ambiguous requests that h11 accepts."""

    _reads_lines = True  # a body with a length needs no check, which would copy the body

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """See `h11.Connection`."""
        unread = self.trailing_data[0] if self._reads_lines else b""
        event = super().next_event()
        if isinstance(event, h11.Request | h11.EndOfMessage):
            if _AMBIGUOUS.search(unread[: len(unread) - len(self.trailing_data[0])]):
                text = "a proxy could find the end of this request in another place"
                raise h11.RemoteProtocolError(text)
            self._reads_lines = isinstance(event, h11.EndOfMessage) or _is_chunked(event.headers)
        return event


class _Flow(FlowControl):
    """uvicorn's flow control with a limit.

    uvicorn resumes reading whenever a call waits for its client. Without this limit, a client that sends requests and
    reads no responses could make the server store all its requests.
    """

    def __init__(self, connection: Connection, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._connection = connection

    def resume_reading(self) -> None:
        """Resumes reading, unless the connection has enough data."""
        if not self._connection.has_unread:
            super().resume_reading()


class Connections:
    """The connections of a port."""

    def __init__(self) -> None:
        """Creates an empty set."""
        self._open = dict[Connection, None]()  # the open connections in the order of their arrival
        self._waiting = deque[Connection]()  # the connections with parts of chunked bodies, which take turns
        self._is_closed = False

    def __len__(self) -> int:
        """Returns the number of connections. Any thread may call this method."""
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Adds a connection, or returns False if the limit of connections prevents that."""
        if self._is_closed or (len(self._open) >= MAX_CONNECTIONS and not self._replace_one(connection.host)):
            return False
        self._open[connection] = None
        return True

    def discard(self, connection: Connection) -> None:
        """Removes a connection, if it is present."""
        self._open.pop(connection, None)

    def close(self) -> None:
        """Closes all connections at once, and admits no new ones."""
        self._is_closed = True
        for connection in tuple(self._open):
            connection.abort()

    def take_turns(self, connection: Connection) -> None:
        """Makes a connection wait for its turn to pass a piece of a chunked body to uvicorn.

        In each iteration of the event loop, only one connection has its turn. A chunk of one byte costs as much as a
        large chunk, so chunks of one connection or of many would otherwise delay all requests.
        """
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            connection.loop.call_soon(self._give_turn)

    def _give_turn(self) -> None:
        connection = self._waiting[0]
        connection.feed()  # adds the connection again if more data is left
        self._waiting.popleft()
        if self._waiting:
            connection.loop.call_soon(self._give_turn)

    def _replace_one(self, host: str) -> bool:
        """Closes a connection to admit a new connection from `host`. Returns False if no connection may be closed."""
        counts = Counter(connection.host for connection in self._open)
        # Otherwise a host with many busy connections would close the idle connections of all other hosts.
        others = [one for one in self._open if one.host == host or counts[one.host] > counts[host]]
        # If several connections have the largest key, `max` returns the oldest of these connections.
        first = max(others, key=lambda one: (not one.is_busy, counts[one.host]))
        if first.is_busy and counts[first.host] <= counts[host] + 1:
            return False
        first.abort()
        return True


def find_connection(request: Request) -> Connection:
    """Returns the connection of a request."""
    connection: Connection = request.scope["state"][_KEY]
    return connection


def _is_chunked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" for name, _ in headers)  # h11 accepts no other encoding than chunks


def read_certificate(transport: asyncio.BaseTransport) -> Mapping[str, Sequence[bytes]]:
    """Returns the client's verified certificate and the names in it, or an empty mapping without a certificate."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    content = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or content is None:
        return {}
    properties: dict[str, list[bytes]] = {_CERTIFICATE: [ssl.DER_cert_to_PEM_cert(content).encode()]}
    # Each entry of `subjectAltName` is a pair of a kind and a name. The variable has the type Any, because the type
    # stubs of Python also allow other kinds of entries.
    names: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    for kind, value in names:
        if kind in _PROPERTIES:
            properties.setdefault(_PROPERTIES[kind], []).append(value.encode())
    return properties
