"""The HTTP port of a process: uvicorn with httptools on a thread of its own, with a guard for each connection.

The main thread calls `start` and `end`. Everything else runs on the event loop.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial

import uvicorn

from tensor_reshape.runtime.allocators import keep_freed_memory
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.asgi import repeat
from tensor_reshape.server.http.guards import Connections, Guard
from tensor_reshape.server.process.housekeeping import RETURN_SECONDS, MemoryReturner, end_process
from tensor_reshape.server.process.listeners import share, take

IDLE_SECONDS = 60
"""Seconds after which a connection without a request is closed."""

UNREAD_SECONDS = 30.0
"""Seconds after which the operating system closes a connection whose client does not read."""

_BACKLOG = 128
_QUIET_BYTES = 16 * 1024 * 1024  # with fewer reserved bytes, freed memory returns to the system
_LOGGER = logging.getLogger(__name__)


class HttpPort:
    """Serves an application on an address.

    Attributes:
        address: the address, with the port that is bound.
    """

    def __init__(self, address: str, app: Application, *, shares: bool = False) -> None:
        """Binds `address`, and keeps new connections waiting until `start` is called.

        Args:
            address: the address as host:port.
            app: the application.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        keep_freed_memory()  # this function must be called before any thread starts
        self._app = app
        self.address, self._listeners = (share if shares else take)(address)
        for listener in self._listeners:
            _prepare(listener)
        self._connections = Connections()
        config = uvicorn.Config(
            app,
            interface="asgi3",
            loop="asyncio",
            http=partial(Guard, self._connections, app.access.find_context),  # type: ignore[arg-type] # called as a class
            ws="none",
            lifespan="on",
            log_config=None,
            # uvicorn does not log, because its log records may contain text of clients
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # uvicorn must not trust the headers of a proxy, because any client can send them
            backlog=_BACKLOG,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=app.grace_seconds,
        )
        self._server = uvicorn.Server(config)
        self._tasks: list[tuple[float, Callable[[], object]]] = []
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def repeat(self, seconds: float, task: Callable[[], object]) -> None:
        """Calls `task` on the event loop every `seconds`. Call this method before `start`."""
        self._tasks.append((seconds, task))

    def start(self) -> None:
        """Starts to serve."""
        memory = MemoryReturner(_QUIET_BYTES)
        self.repeat(RETURN_SECONDS, lambda: memory.check(self._app.admission.used_bytes))
        self._thread.start()

    def drain(self) -> None:
        """Closes the port and idle connections. Busy connections close after their response, or after the grace."""
        self._server.should_exit = True

    def end(self, hurry: threading.Event) -> None:
        """Closes the port, and waits until running calls have ended, or until `hurry` is set."""
        self.drain()
        while self._thread.is_alive():
            self._thread.join(0.05)
            self._server.force_exit = hurry.is_set()
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except Exception:
            _LOGGER.exception("bug")
        if not self._server.should_exit:
            end_process("the thread that serves HTTP has ended")

    async def _serve(self) -> None:
        repeated = [asyncio.ensure_future(repeat(*task)) for task in self._tasks]
        try:
            await self._server.serve(list(self._listeners))
        finally:
            for task in repeated:
                task.cancel()


def _prepare(listener: socket.socket) -> None:
    """Sets options of a listener, which its connections inherit, and reserves the port for this process."""
    # Without TCP_NODELAY, the body of a response waits 40 ms until the client's system has acknowledged the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has this option
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
    listener.listen(_BACKLOG)
