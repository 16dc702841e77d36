"""The HTTP port: a uvicorn server on its own thread, next to the thread that receives gRPC calls.

- While the port is open, the interpreter switches threads at a short interval. Otherwise each iteration of the event
  loop would delay gRPC calls by up to 5 ms.
- The thread that owns the server calls `start`, `dismiss` and `end`. The connections belong to the event loop.
"""

import asyncio
import socket
import threading
from contextlib import suppress
from functools import partial

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tensor_reshape.server.engine.fair_locks import FAST_SWITCHES
from tensor_reshape.server.http.connections import (
    MAX_CONNECTIONS,
    Connection,
    Connections,
    FindContext,
    find_connection,
)
from tensor_reshape.server.http.requests import await_disconnect
from tensor_reshape.server.transport.listeners import share, take
from tensor_reshape.server.transport.options import MAX_METADATA_BYTES

IDLE_SECONDS = 60
"""The time after which a connection without a request is closed."""

_BACKLOG = 128


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
            # Connections inherit it. Without it, the body of a response waits 40 ms for the client's system to
            # acknowledge the headers. asyncio sets it only if the socket names its protocol, which these do not.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.listen(_BACKLOG)  # now, because others could take the port; connections wait for `start`
        self._app = app
        self._connections = Connections()
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=partial(Connection, self._connections, find_context),  # type: ignore[arg-type] # called as a class
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",  # uvicorn logs what clients send; `apps.Guard` logs bugs
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

    @property
    def is_deaf(self) -> bool:
        """Whether the port's thread has ended unexpectedly. Any thread may read it."""
        has_ended = self._thread is not None and not self._thread.is_alive()
        return has_ended and not self._server.should_exit

    def start(self) -> None:
        """Starts to serve."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop,), name="http", daemon=True)
        self._thread.start()

    def dismiss(self) -> None:
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
            loop.run_until_complete(self._serve())
        finally:
            FAST_SWITCHES.end()
            loop.close()

    async def _serve(self) -> None:
        await self._server.serve(list(self._listeners))
        # `asyncio.run` would also wait for threads that still work.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = find_connection(scope)
        with connection.answering():
            if connection.transport.is_closing():  # uvicorn has rejected data after the headers, and sent a response
                await await_disconnect(receive)
            else:
                await self._app(scope, receive, send)
