"""A guard stands between a connection's socket and uvicorn's protocol, and enforces limits that uvicorn does not have.

- A connection must send the headers of a request within `HEAD_SECONDS`. The time includes the TLS handshake.
- The headers of a request may have `MAX_HEAD_BYTES`. While a request is served, a client may send the body of this
  request, and `MAX_HEAD_BYTES` of further requests. If a client exceeds one of these limits by at most one small piece
  of data, this causes no error.
- Only a body whose size is known is read in large pieces. All other data is read in small pieces, because one piece may
  contain many tiny chunks or requests, and a tiny chunk or request takes as much time as a large one.
- A port has at most `MAX_CONNECTIONS` connections. If another connection arrives, the server closes the oldest idle
  connection of the host with the most connections. If that host has no idle connection, the server closes its oldest
  connection. The new connection counts for its own host. If no other host has more connections than this host, the
  server closes only an idle connection of this host. If this host has no idle connection, the server rejects the new
  connection.

The guard forwards bytes without parsing them. The only HTTP response that it writes itself has the status 431. The
application calls the guard when a request begins and ends.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tensor_reshape.server.calls.sources import find_address
from tensor_reshape.server.http.asgi import name_peer
from tensor_reshape.server.telemetry.call_logs import log_outside

HEAD_SECONDS = 10.0
"""The time limit for the headers of a request, in seconds."""

MAX_HEAD_BYTES = 32 * 1024
"""The maximum size of the headers of a request, and of data that a client sends ahead."""

MAX_CONNECTIONS = 512
"""The maximum number of connections of a port. A connection with TLS takes 300 KiB of memory."""

GUARD = "tensor_reshape.guard"
"""The key of the guard in the state of ASGI's scope."""

FindContext = Callable[[], ssl.SSLContext]
"""Function that returns the TLS context for a new connection, with the current certificates."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LARGE_TEXT = f"the headers of the request have more than {MAX_HEAD_BYTES} bytes"
_PIECE_BYTES, _SMALL_PIECE_BYTES = 256 * 1024, 4 * 1024
# with TLS, one more piece of data arrives before the application runs
_HEAD_AND_PIECE_BYTES = MAX_HEAD_BYTES + _SMALL_PIECE_BYTES
_LOOK_SECONDS = 0.02
_TLS_END_SECONDS = 1.0  # a client that does not read never completes the TLS shutdown, so the wait is limited
_BUFFER = memoryview(bytearray(_PIECE_BYTES))  # all guards share this buffer, because a guard copies its data at once
_PROPERTIES = {"URI": "peer_uri", "DNS": "peer_dns", "email": "peer_email"}


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol for HTTP/1.1, which also logs a line if its parser rejects data."""

    def send_400_response(self, msg: str) -> None:
        """Logs that the data is not valid, and rejects it as uvicorn does."""
        log_outside("", "INVALID_ARGUMENT", name_peer(self.client), "the request is not valid HTTP/1.1")
        super().send_400_response(msg)


class Guard(asyncio.BufferedProtocol):
    """Guards one connection. Only the thread of the event loop uses this object.

    Attributes:
        host: the address of the client, in the form that `sources.find_address` returns.
        certificate: the client's certificate and the names in it, with the keys of gRPC's `auth_context`.
        is_busy: whether the application serves a request of this connection.
        lost: a future that is done when the connection is closed.
    """

    def __init__(self, connections: "Connections", find_context: FindContext | None, **arguments: Any) -> None:
        """Creates the guard of a connection that is not open yet. `arguments` are passed to uvicorn's protocol."""
        self._inner = _Protocol(**{**arguments, "app_state": {GUARD: self}})
        self._connections, self._find_context = connections, find_context
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._socket_transport: asyncio.Transport | None = None  # the transport below TLS, if the port uses TLS
        self._early: bytes | None = b""  # data that arrives before uvicorn's protocol is connected
        self._timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._left, self._piece = _HEAD_AND_PIECE_BYTES, _SMALL_PIECE_BYTES
        self.host, self.is_busy, self._requests = "", False, 0
        self.certificate: Mapping[str, Sequence[bytes]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admits or closes a new connection, and starts its time limit. asyncio calls this method."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = self._socket_transport = transport
        self.host = find_address(name_peer(transport.get_extra_info("peername")))
        if not self._connections.admit(self):
            transport.abort()
            return
        self._timer = self._loop.call_later(HEAD_SECONDS, self.abort)
        if self._find_context is None:
            self._begin(transport)
        else:
            self._handshake = self._loop.create_task(self._start_tls(transport, self._find_context()))

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        try:
            secure = await self._loop.start_tls(
                transport, self, context, server_side=True, ssl_shutdown_timeout=_TLS_END_SECONDS
            )
        except OSError:  # the client has disconnected, or the handshake has failed
            secure = None
        if secure is None:
            self.abort()
            self.connection_lost(None)  # asyncio does not call this method if the handshake was not complete
        else:
            self._begin(secure)

    def _begin(self, transport: asyncio.Transport) -> None:
        self._transport, self.certificate = transport, _read_certificate(transport)
        # With these limits, uvicorn waits after each part of a response until the operating system has accepted it. The
        # upper limit is 1 byte. With the limit 0, asyncio's TLS would pause a protocol whose buffer is empty, and would
        # not resume it.
        transport.set_write_buffer_limits(1, 0)
        self._inner.connection_made(transport)
        early, self._early = self._early, None
        if early:
            self._inner.data_received(early)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns the buffer for the next piece of data. asyncio calls this method."""
        del sizehint
        return _BUFFER[: self._piece]

    def buffer_updated(self, nbytes: int) -> None:
        """Checks the limits, and forwards a piece of data to uvicorn. asyncio calls this method."""
        if self._timer is None and not self.is_busy:  # a request begins on an idle connection
            self._left = _HEAD_AND_PIECE_BYTES
            self._timer = self._loop.call_later(HEAD_SECONDS, self.abort)
        self._left -= nbytes
        if self._left < 0:
            if self._transport is not None and self._early is None and not self.is_busy:
                log_outside("", "RESOURCE_EXHAUSTED", name_peer(self._inner.client), _TOO_LARGE_TEXT)
                self._transport.write(_TOO_LARGE)
                self._transport.close()
            else:
                self.abort()
        elif self._early is not None:
            self._early += bytes(_BUFFER[:nbytes])
        else:
            self._inner.data_received(bytes(_BUFFER[:nbytes]))
            if self.is_busy and self._transport is not None:
                # If a further request arrives, uvicorn pauses reading. It would then not detect that the connection is
                # lost.
                self._transport.resume_reading()

    def begin_request(self, max_bytes: int, *, is_chunked: bool) -> None:
        """Records that the headers of a request have arrived, and raises the client's limit by `max_bytes`.

        `max_bytes` limits the headers and the body of this request together. Without a limit, a client could send
        further requests faster than the server serves them.
        """
        self._stop_timer()
        self._requests += 1
        self.is_busy, self._left = True, min(self._left, _HEAD_AND_PIECE_BYTES) + max_bytes
        self._piece = _SMALL_PIECE_BYTES if is_chunked or max_bytes < _SMALL_PIECE_BYTES else _PIECE_BYTES

    async def end_request(self, seconds: float) -> None:
        """Waits until the client has read the response, or aborts the connection after `seconds`."""
        self._left, self._piece = min(self._left, _HEAD_AND_PIECE_BYTES), _SMALL_PIECE_BYTES
        end, request = self._loop.time() + seconds, self._requests
        # The write buffer of TLS becomes empty before the client has read the data. The loop therefore polls the
        # socket's buffer below TLS, because no event reports that this buffer is empty.
        while self._socket_transport is not None and self._socket_transport.get_write_buffer_size():
            if self._loop.time() > end:
                self.abort()
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.sleep(0)  # if a further request has already arrived, it begins here
        self.is_busy = self._requests != request

    def abort(self) -> None:
        """Closes the connection at once, without sending buffered data."""
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Forwards the call to uvicorn's protocol. asyncio calls this method."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Forwards the call to uvicorn's protocol. asyncio calls this method."""
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forwards the call to uvicorn's protocol. asyncio calls this method."""
        del exc  # the exception is not forwarded, because uvicorn would then leave its idle timer running
        if self.lost.done():
            return
        self._connections.discard(self)
        self._stop_timer()
        if self._handshake is not None:
            self._handshake.cancel()
        self.lost.set_result(None)
        if self._early is None:
            self._inner.connection_lost(None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Connections:
    """The open connections of one port, whose number is limited."""

    def __init__(self) -> None:
        """Starts without connections."""
        self._open = dict[Guard, None]()  # this dict serves as a set that keeps the order of arrival

    def __len__(self) -> int:
        """Returns the number of connections. Any thread may call this method."""
        return len(self._open)

    def admit(self, guard: Guard) -> bool:
        """Adds a connection. If the limit is reached, closes another connection first, or returns False."""
        if len(self._open) >= MAX_CONNECTIONS:
            counts = Counter(one.host for one in self._open)
            ((host, most),) = counts.most_common(1)
            host = host if most > counts[guard.host] + 1 else guard.host
            theirs = [one for one in self._open if one.host == host]
            replaced = next((one for one in theirs if not one.is_busy), None if host == guard.host else theirs[0])
            if replaced is None:
                return False
            replaced.abort()
            self.discard(replaced)
        self._open[guard] = None
        return True

    def discard(self, guard: Guard) -> None:
        """Removes a connection, or does nothing if it was already removed."""
        self._open.pop(guard, None)


def _read_certificate(transport: asyncio.BaseTransport) -> Mapping[str, Sequence[bytes]]:
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    content = tls.getpeercert(binary_form=True) if tls is not None else None
    if tls is None or content is None:
        return {}
    properties: dict[str, list[bytes]] = {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(content).encode()]}
    # The variable has the type Any, because Python's type stubs for this dict also allow values of other forms.
    names: Any = (tls.getpeercert() or {}).get("subjectAltName", ())
    for kind, value in names:
        if kind in _PROPERTIES:
            properties.setdefault(_PROPERTIES[kind], []).append(value.encode())
    return properties
