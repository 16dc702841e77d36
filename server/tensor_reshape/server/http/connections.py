"""HTTP/1.1 connections: uvicorn's protocol on h11, with limits that uvicorn does not have.

- There are at most `MAX_CONNECTIONS`. At the limit, a new connection replaces the oldest one of the host with the most
  connections: an idle one, or a busy one if that host has more than the new connection's host. One host therefore
  cannot block the others.
- The headers of a request must arrive within `HEADER_SECONDS`, from the start of the connection or from their first
  byte. uvicorn limits their size (`h11_max_incomplete_event_size`) and the time between requests.
- Only methods of asyncio's protocols are overridden.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from tensor_reshape.server.engine.sources import find_address, name_peer

MAX_CONNECTIONS = 256
"""The maximum number of connections of a port. With TLS, each takes 300 KiB."""

HEADER_SECONDS = 10.0
"""The time limit for the headers of a request. For the first request it includes the TLS handshake."""

FindContext = Callable[[], ssl.SSLContext]
"""Returns the TLS context for a new connection, with the certificates that are valid now."""

_TLS_END_SECONDS = 1.0  # idle clients do not complete the TLS shutdown; asyncio would wait 30 s for them
_KEY = "connection"
_PROPERTIES = {"URI": "peer_uri", "DNS": "peer_dns", "email": "peer_email"}
_CERTIFICATE = "x509_pem_cert"
_LOGGER = logging.getLogger(__name__)


class Connection(H11Protocol):
    """One connection, on the thread of the event loop.

    Attributes:
        name: the peer's name, in gRPC's form.
        host: the peer's address, as fair shares count it.
        certificate: the client's certificate and its names, with the keys of gRPC's `auth_context`.
    """

    def __init__(self, connections: "Connections", find_context: FindContext | None, **arguments: Any) -> None:
        """Creates the protocol without a transport.

        Args:
            connections: the connections of the port.
            find_context: returns the TLS context; None: plain text.
            arguments: the arguments of uvicorn's protocol.
        """
        super().__init__(**{**arguments, "app_state": {_KEY: self}})
        self.name = self.host = ""
        self.certificate: Mapping[str, Sequence[bytes]] = {}
        self._connections = connections
        self._find_context = find_context
        self._socket: asyncio.Transport | None = None  # the transport below TLS, if there is TLS
        self._early: bytes | None = b""  # data received before uvicorn could read it; None afterwards
        self._header_timer: asyncio.TimerHandle | None = None  # set while headers are expected

    @property
    def is_busy(self) -> bool:
        """Whether a request has its headers but not its complete response."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts serving, after the TLS handshake if there is TLS; see `asyncio.Protocol`."""
        self._socket = transport
        try:
            self.name = name_peer(transport.get_extra_info("socket"))
        except OSError:  # the client has already disconnected
            transport.abort()
            return
        self.host = find_address(self.name)
        if not self._connections.admit(self):
            transport.abort()
            return
        self._limit_headers()
        if self._find_context is None:
            self._begin(transport)
        else:
            transport.pause_reading()  # `start_tls` resumes it
            handshake = self.loop.create_task(self._start_tls(transport, self._find_context))
            self.tasks.add(handshake)  # uvicorn's set, which prevents garbage collection
            handshake.add_done_callback(self.tasks.discard)

    async def _start_tls(self, transport: asyncio.Transport, find_context: FindContext) -> None:
        secure: asyncio.Transport | None = None
        try:
            secure = await self.loop.start_tls(
                transport, self, find_context(), server_side=True, ssl_shutdown_timeout=_TLS_END_SECONDS
            )
        except OSError:
            pass  # the client has disconnected, or the TLS versions do not match
        except Exception:
            _LOGGER.exception("bug")
        finally:
            if secure is None:
                self.abort()
            else:
                self._begin(secure)

    def _begin(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(1, 0)  # so `flow.drain` waits until the system has the whole response
        self.certificate = read_certificate(transport)
        early, self._early = self._early, None
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._early is not None:  # `start_tls` passes on data received with the handshake before it returns
            self._early += data
            return
        super().data_received(data)
        self._limit_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        del exc
        if self._early is None:
            super().connection_lost(None)  # with an exception, uvicorn would leave its idle timer running
        self._leave()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._leave()
        if self._socket is not None:
            self._socket.abort()

    def _limit_headers(self) -> None:
        """Starts the timer of the headers, unless it runs; stops it when they have arrived."""
        if self.is_busy:
            self._stop_timer()
        elif self._header_timer is None:
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.abort)

    def _leave(self) -> None:
        self._connections.discard(self)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


class Connections:
    """The connections of a port."""

    def __init__(self) -> None:
        """Creates an empty set."""
        self._open = dict[Connection, None]()  # in the order of arrival
        self._is_closed = False

    def __len__(self) -> int:
        """Returns the number of connections. Any thread may call it."""
        return len(self._open)

    def admit(self, connection: Connection) -> bool:
        """Adds a connection; returns False if the limit prevents it."""
        if self._is_closed or (len(self._open) >= MAX_CONNECTIONS and not self._replace_one(connection.host)):
            return False
        self._open[connection] = None
        return True

    def discard(self, connection: Connection) -> None:
        """Removes a connection, if it is present."""
        self._open.pop(connection, None)

    def close(self) -> None:
        """Closes all connections at once, and admits no others."""
        self._is_closed = True
        for connection in tuple(self._open):
            connection.abort()

    def _replace_one(self, host: str) -> bool:
        """Closes a connection in favor of one of `host`; returns False if none may be closed."""
        counts = Counter(connection.host for connection in self._open)
        first = max(self._open, key=lambda one: (not one.is_busy, counts[one.host]))  # the oldest of several
        if first.is_busy and counts[first.host] <= counts[host] + 1:
            return False
        first.abort()
        return True


def find_connection(request: Request) -> Connection:
    """Returns the connection of a request."""
    connection: Connection = request.scope["state"][_KEY]
    return connection


def read_certificate(transport: asyncio.BaseTransport) -> Mapping[str, Sequence[bytes]]:
    """Returns the client's verified certificate and its names; nothing without a certificate or without TLS."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    content = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or content is None:
        return {}
    properties: dict[str, list[bytes]] = {_CERTIFICATE: [ssl.DER_cert_to_PEM_cert(content).encode()]}
    # pairs; the declared type also covers other entries
    names: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    for kind, value in names:
        if kind in _PROPERTIES:
            properties.setdefault(_PROPERTIES[kind], []).append(value.encode())
    return properties
