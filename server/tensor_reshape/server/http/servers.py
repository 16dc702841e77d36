"""A process that serves HTTP: uvicorn with httptools on a thread of its own, with a guard for each connection.

The main thread calls `start` and `stop`. Everything else runs on the event loop.
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
_QUIET_BYTES = 16 * 1024 * 1024  # with fewer reserved bytes, freed memory returns to the system
_LOGGER = logging.getLogger(__name__)


class HttpServer:
    """A server that binds its address when it is created, serves after `start`, and stops gracefully.

    Attributes:
        app: the application.
        address: the address, with the port that is bound.
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
            config: the configuration, with the share of the memory budget of this process.
            app: a replacement for the application of `config`.
            counters: the memory for metrics, or None without metrics.
            shares_ports: whether other processes listen on the same address.

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
            # uvicorn does not log, because its log records may contain text of clients
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
        """Reports that it is not ready for the drain period, then closes the port and waits for running calls.

        Idle connections close at once, and busy ones after their response, or after the grace. Returns the number of
        calls that did not finish in time, and were cancelled.

        Args:
            hurry: an event that ends all waits early.
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
    """Sets options of a listener, which its connections inherit, and reserves the port for this process."""
    # Without TCP_NODELAY, the body of a response waits 40 ms until the client's system has acknowledged the headers.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # only Linux has this option
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(UNREAD_SECONDS * 1000))
    listener.listen(_BACKLOG)


def serve_until_signal(server: HttpServer, announce: Callable[[], None]) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP. A second stop signal ends running calls.

    Args:
        server: the server, which has not started.
        announce: a function that is called when the server serves.
    """
    with catch_signals(STOP_SIGNALS) as signals:
        server.start()
        announce()
        stop_at_signal(signals, server.stop)
