"""The HTTP port: a uvicorn server on its own thread, next to the thread that receives gRPC calls.

- While the port is open, the interpreter switches threads at a short interval. Otherwise each iteration of the event
  loop would delay gRPC calls by up to 5 ms.
- The thread that owns the server calls `start`, `drain` and `end`. The connections belong to the event loop.
"""

import asyncio
import logging
import socket
import threading
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from tensor_reshape.server.engine.fair_locks import FAST_SWITCHES
from tensor_reshape.server.http.connections import MAX_CONNECTIONS, Connection, Connections, FindContext
from tensor_reshape.server.process.housekeeping import end_process
from tensor_reshape.server.transport.listeners import share, take
from tensor_reshape.server.transport.options import MAX_METADATA_BYTES

IDLE_SECONDS = 60
"""The time after which a connection without a request is closed."""

UNREAD_SECONDS = 30.0
"""The time after which the system closes a connection whose client does not read. Calls have a stall timeout, too."""

_BACKLOG = 128
_LOGGER = logging.getLogger(__name__)


class HttpPort:
    """Serves an application on its own address.

    Attributes:
        address: the address, with its real port.
        max_connections: the maximum number of connections.
    """

    max_connections = MAX_CONNECTIONS

    def __init__(self, address: str, app: ASGIApp, find_context: FindContext | None, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            address: host:port.
            app: the application.
            find_context: returns the TLS context; None: plain text.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self.address, self._listeners = (share if shares else take)(address)
        for listener in self._listeners:
            prepare_listener(listener)
            listener.listen(_BACKLOG)  # now, because others could take the port; connections wait for `start`
        self._connections = Connections()
        config = uvicorn.Config(
            app,
            interface="asgi3",
            http=partial(Connection, self._connections, find_context),  # type: ignore[arg-type] # called as a class
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # uvicorn logs what clients send; `apps` logs bugs
            access_log=False,
            server_header=False,
            proxy_headers=False,  # any client can send them
            backlog=_BACKLOG,
            timeout_keep_alive=IDLE_SECONDS,
            h11_max_incomplete_event_size=MAX_METADATA_BYTES,
        )
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None  # None until `start`, like the next attribute
        self._thread: threading.Thread | None = None

    @property
    def is_idle(self) -> bool:
        """Whether there is no connection. Any thread may read it."""
        return not len(self._connections)

    def start(self) -> None:
        """Starts to serve."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="http", daemon=True)
        self._thread.start()

    def drain(self) -> None:
        """Closes the port and idle connections. Other connections close after their response."""
        self._server.should_exit = True

    def end(self) -> None:
        """Ends the port and all running calls."""
        self._server.should_exit = self._server.force_exit = True
        if self._loop is not None and self._thread is not None:
            with suppress(RuntimeError):  # the loop has ended
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
    """Sets options that connections inherit."""
    # Without TCP_NODELAY, the body of a response waits 40 ms for the client's system to acknowledge the headers.
    # asyncio sets it only if the socket names its protocol, which these sockets do not.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
