"""One connection over HTTP: HTTP/1.1 as h11 and uvicorn speak it, and what a stranger may not do with it.

- A request's head has `HEAD_SECONDS` to come, from the beginning of the connection or its first byte, and as many bytes
  as the metadata of a call. Between two requests a connection may be idle for `IDLE_SECONDS`.
- A body that is sent in chunks is not read: each of them may be a byte, and cost as much as a request. Nor is one that
  is left when the request has been answered: the connection is closed.
- Requests that come before the one in front of them is answered stay with the system, but for what was read with it.
- How long a body may take, and an answer, is the call's: see `calls`. Also where there is no call, as for a page, or
  none any more, what has been written has `PIECE_SECONDS` to be taken: so who does not read keeps no place.
- Nothing is logged but bugs: what is no HTTP is not worth a line, which a stranger could have as often as he likes.
"""

import asyncio
import logging
import time

import h11
from uvicorn.config import Config as UvicornConfig
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from tensor_reshape.server.http.answers import build_error
from tensor_reshape.server.http.peers import Peer, read_certificate

HEAD_SECONDS = 10.0
"""How long a request's head may take."""

IDLE_SECONDS = 60
"""How long a connection may have no request. No call is lost where it ends: a client that is told asks on another."""

PIECE_SECONDS = 30.0
"""How long what has been written may wait for its reader."""

_END_SECONDS = 1.0  # an idle client does not look whether TLS ends, and asyncio would wait 30 s for its answer
_PIECE_BYTES = 4096  # what h11 is given at one time: of chunks of a byte each, it reads 700 in that
_LOGGER = logging.getLogger(__name__)
_LOGGER.setLevel(logging.ERROR)  # uvicorn warns of what callers send


class Connection(H11Protocol):
    """One connection, on the thread of the loop.

    Attributes:
        closed: set when it is over.
        since: by `time.monotonic`, when it was last heard of, or answered.
    """

    def __init__(self, config: UvicornConfig, state: ServerState, name: str) -> None:
        """Idle until it is made; `name` is the peer's, as gRPC gives it."""
        super().__init__(config, state, {})
        self.logger, self.access_log = _LOGGER, False
        self.closed = asyncio.Event()
        self.since = time.monotonic()
        self._name = name
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._is_deaf = False  # whether nothing is read any more

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(1, 0)  # so that `pause_writing` tells of what is not taken at once
        told = read_certificate(transport)  # now: later, another thread may ask while this one reads
        self.app_state = dict(Peer(self._name, lambda: told, self.abort).note())
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._stop_awaiting_head()
        self._stop_awaiting_reader()
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self.since = time.monotonic()
        if self._head_timer is None and not self.is_busy:
            self._await_head()
        for begin in range(0, len(data), _PIECE_BYTES):
            if self._is_deaf or self.transport.is_closing():
                return
            super().data_received(data[begin : begin + _PIECE_BYTES])
            self._is_deaf = self._is_deaf or self._sends_chunks()
        if self.is_busy:
            self._stop_awaiting_head()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(PIECE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        self._stop_awaiting_reader()

    def on_response_complete(self) -> None:
        """Goes on with the next request, or ends; see `H11Protocol`."""
        self.since = time.monotonic()
        if self._is_deaf or self.conn.their_state is h11.SEND_BODY:
            self.transport.close()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Ends: at once where it is idle, else with the answer; see `H11Protocol`."""
        if not self.transport.is_closing():  # see `abort`
            super().shutdown()
        if not self.is_busy and self._write_timer is None:
            self.loop.call_later(_END_SECONDS, self.abort)

    def abort(self) -> None:
        """Ends at once, unless it has ended: before Python 3.11.4, what is closed twice over TLS cannot be aborted."""
        if not self.closed.is_set():
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP; see `H11Protocol`."""
        answer = build_error(400, "INVALID_ARGUMENT", msg)
        headers = [*answer.headers.items(), ("content-length", str(len(answer.body))), ("connection", "close")]
        for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=answer.body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _sends_chunks(self) -> bool:
        return self.is_busy and any(name == b"transfer-encoding" for name, _ in self.headers)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_awaiting_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_awaiting_reader(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
