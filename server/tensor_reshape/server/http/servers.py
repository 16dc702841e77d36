"""Serves HTTP with uvicorn and httptools on a separate thread, with a guard for each connection.

The main thread calls `start` and `stop`. All other code runs on the event loop of the separate thread.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial

import uvicorn

from tensor_reshape.runtime.allocators import keep_freed_memory
from tensor_reshape.server.config import STOP_SIGNALS, Config
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.guards import Connections, Guard
from tensor_reshape.server.process.housekeeping import RETURN_SECONDS, MemoryReturner, end_process
from tensor_reshape.server.process.listeners import take
from tensor_reshape.server.process.logs import report_lost_records
from tensor_reshape.server.process.signals import catch_signals, stop_at_signal
from tensor_reshape.server.telemetry.metrics import SharedCounters

IDLE_SECONDS = 60
"""Seconds after which a connection without a request is closed."""

UNREAD_SECONDS = 30.0
"""Seconds after which the operating system closes a connection whose client does not read."""

_BACKLOG = 128
_BEAT_SECONDS = 0.5
_REPORT_SECONDS = 1.0
# while calls have reserved at most this many bytes, freed memory is returned to the system
_QUIET_BYTES = 16 * 1024 * 1024
_LOGGER = logging.getLogger(__name__)


class HttpServer:
    """An HTTP server that binds its address when it is created, serves after `start`, and stops gracefully.

    Attributes:
        app: the ASGI application that serves the requests.
        address: the address on which the server listens, with its bound port.
    """

    def __init__(
        self,
        config: Config,
        app: Application | None = None,
        *,
        counters: SharedCounters | None = None,
        shares_ports: bool = False,
    ) -> None:
        """Binds `config.http_listen`, which must be set, and keeps new connections waiting until `start` is called.

        Args:
            config: the configuration, with this process's share of the memory budget.
            app: the application to run instead of one that is created from `config`.
            counters: the memory that stores the metrics, or None if the process has no metrics.
            shares_ports: whether the parent process has reserved the port for this process.

        Raises:
            ConfigError: the address cannot be bound, or a configured file is invalid.
        """
        keep_freed_memory()  # this function must be called before any thread starts
        self._drain_seconds = config.drain_seconds
        self.app = app = app or Application(config, counters=counters)
        self.address, self._listeners = take(config.http_listen or "", held=shares_ports)
        for listener in self._listeners:
            _prepare(listener)
        self._connections = Connections()
        certificates = app.access.certificates
        find_context = None if certificates is None else lambda: certificates.value.context
        settings = uvicorn.Config(
            app,
            interface="asgi3",
            loop="asyncio",
            http=partial(Guard, self._connections, find_context),  # type: ignore[arg-type] # called as a class
            ws="none",
            lifespan="on",
            log_config=None,
            # uvicorn must not log, because its log records may contain text from clients.
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # uvicorn must not trust the headers of a proxy, because any client can send them
            backlog=_BACKLOG,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=max(1, round(config.shutdown_grace_seconds)),
        )
        self._server = uvicorn.Server(settings)
        memory = MemoryReturner(_QUIET_BYTES)
        app.tasks.append((_REPORT_SECONDS, report_lost_records))
        app.tasks.append((RETURN_SECONDS, lambda: memory.check(app.admission.used_bytes)))
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def beat(self, send: Callable[[], None]) -> None:
        """Sends heartbeats with `send` while the event loop runs. Call this method before `start`."""
        self.app.tasks.append((_BEAT_SECONDS, send))

    def start(self) -> None:
        """Starts to accept requests."""
        self._thread.start()

    def stop(self, hurry: threading.Event) -> int:
        """Reports during the drain period that the server is not ready, and then stops the server gracefully.

        After the drain period, the server closes the port, and closes idle connections at once. It closes a busy
        connection after its response, or at the end of the grace period. The method returns the number of calls that
        did not finish in time and were cancelled.

        Args:
            hurry: an event that ends the drain period and the grace period early.
        """
        self.app.is_serving = False
        hurry.wait(self._drain_seconds)
        self._server.should_exit = True
        while self._thread.is_alive():
            self._thread.join(0.05)
            self._server.force_exit = hurry.is_set()
        for listener in self._listeners:
            listener.close()
        return self.app.cancelled_calls

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._server.serve(list(self._listeners)))
        except Exception:
            _LOGGER.exception("bug")
        if not self._server.should_exit:
            end_process("the thread that serves HTTP has ended")


def _prepare(listener: socket.socket) -> None:
    """Sets socket options of a listener, which its connections inherit, and starts to listen on its port."""
    # Without TCP_NODELAY, the body of a response is sent up to 40 ms later, when the client's system has acknowledged
    # the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # other systems than Linux do not have this option
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
    listener.listen(_BACKLOG)


def serve_until_signal(server: HttpServer, announce: Callable[[], None]) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP. A second signal ends running calls at once.

    Args:
        server: the server to start, which must not have started yet.
        announce: a function that is called after the server has started.
    """
    with catch_signals(STOP_SIGNALS) as signals:
        server.start()
        announce()
        stop_at_signal(signals, server.stop)
