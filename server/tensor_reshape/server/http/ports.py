"""The HTTP port, which runs a uvicorn server on its own thread.

- While the HTTP port is open, the interpreter switches threads at shorter intervals. With Python's default switch
  interval, each iteration of the event loop would delay the thread that receives gRPC calls by up to 5 ms.
- The main thread of the server calls `start`, `drain` and `end`. Only code on the event loop changes the set of
  connections.
"""

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from tensor_reshape.server.http.connections import MAX_CONNECTIONS, Connection, Connections, FindContext
from tensor_reshape.server.process.fair_locks import FAST_SWITCHES
from tensor_reshape.server.process.housekeeping import end_process
from tensor_reshape.server.transport.listeners import share, take

IDLE_SECONDS = 60
"""Seconds after which a connection without a request is closed."""

UNREAD_SECONDS = 30.0
"""Seconds after which the operating system closes a connection whose client does not read.

In addition, the stall timeout aborts calls whose client does not read the response.
"""

_BACKLOG = 128
_LOGGER = logging.getLogger(__name__)


class HttpPort:
    """Serves an application on its own address.

    Attributes:
        address: the address, with the port that is bound.
        max_connections: the maximum number of connections.
    """

    max_connections = MAX_CONNECTIONS

    def __init__(self, address: str, app: ASGIApp, find_context: FindContext | None, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            address: the address as host:port.
            app: the ASGI application.
            find_context: function that returns the TLS context, or None for plain text.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self.address, self._listeners = (share if shares else take)(address)
        for listener in self._listeners:
            prepare_listener(listener)
            # The call of `listen` reserves the port for this process. New connections wait until `start` is called.
            listener.listen(_BACKLOG)
        self._connections = Connections()
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http=partial(Connection, self._connections, find_context),  # type: ignore[arg-type] # called as a class
            ws="none",
            lifespan="off",
            log_config=None,
            # uvicorn does not log, because its log records may contain text of clients, and `apps` already logs bugs
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # uvicorn must not trust the headers of a proxy, because any client can send them
            backlog=_BACKLOG,
            timeout_keep_alive=IDLE_SECONDS,
        )
        self._server = uvicorn.Server(config)
        # The attributes `_loop` and `_thread` have no values before `start` is called.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the port has no connections. Any thread may read this property."""
        return not len(self._connections)

    def start(self) -> None:
        """Starts to serve."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="http", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Closes the port and idle connections. Busy connections close after their response."""
        self._server.should_exit = True

    def end(self) -> None:
        """Closes the port and ends all running calls."""
        self._server.should_exit = self._server.force_exit = True
        if self._loop is not None and self._thread is not None:
            with suppress(RuntimeError):  # the event loop raises RuntimeError if it has ended
                self._loop.call_soon_threadsafe(self._connections.close)
            self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        FAST_SWITCHES.begin()
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._server.serve(list(self._listeners)))
        except Exception:
            _LOGGER.exception("bug")
        finally:
            FAST_SWITCHES.end()
        if not self._server.should_exit:
            end_process("the thread that serves HTTP has ended")


def prepare_listener(listener: socket.socket) -> None:
    """Sets socket options of a listener. The connections of the listener inherit these options."""
    # Without TCP_NODELAY, the body of a response waits 40 ms until the client's system has acknowledged the headers.
    # The library asyncio sets TCP_NODELAY only for sockets that were created with an explicit protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has the socket option TCP_USER_TIMEOUT
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
