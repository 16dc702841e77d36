"""The HTTP port for Prometheus: prometheus_client's handler on the server of the standard library.

The port has no encryption and no authentication, so it must only be reachable from a trusted network. The effect of
untrusted clients is limited anyway. The port accepts CONNECTIONS_PER_SECOND, because more would take processor time
from calls, and it closes each connection after REQUEST_SECONDS. Each connection has a thread that ends with it, so the
number of threads is limited to the connections of that time.
"""

import logging
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from socketserver import ThreadingTCPServer
from typing import Any

from prometheus_client import MetricsHandler
from prometheus_client.registry import Collector

from tensor_reshape.server.transport.listeners import take

CONNECTIONS_PER_SECOND = 10
"""Limit of accepted connections. Others wait. A scrape takes 5 ms, and a few scrapers connect every few seconds."""

REQUEST_SECONDS = 2.0
"""Time for a request and its response. A connection is closed up to half a second later."""

_LOGGER = logging.getLogger(__name__)


class MetricsServer(ThreadingTCPServer):
    """Serves the metrics of a registry on one listener, with a thread for each connection."""

    daemon_threads = True  # the process does not wait for them when it ends
    request_queue_size = 64

    def __init__(self, listener: socket.socket, registry: Collector) -> None:
        """Serves on `listener`, which must be bound, and closes it at the end."""
        super().__init__(listener.getsockname(), MetricsHandler.factory(registry), bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._taken: deque[tuple[float, socket.socket]] = deque()  # the time, and the connection
        self.server_activate()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accepts a connection; see `socketserver`."""
        time.sleep(1 / CONNECTIONS_PER_SECOND)  # also before `accept` fails, for example without free descriptors
        connection, address = super().get_request()
        self._taken.append((time.monotonic(), connection))
        return connection, address

    def service_actions(self) -> None:
        """Closes connections after REQUEST_SECONDS. `socketserver` calls it after each request and twice a second."""
        while self._taken and self._taken[0][0] <= time.monotonic() - REQUEST_SECONDS:
            _, connection = self._taken.popleft()
            with suppress(OSError):  # already closed
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as socketserver has it
        """Logs an error, unless it is a failure of the connection."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOGGER.error("bug", exc_info=error)


@contextmanager
def serve_metrics(address: str, registry: Collector) -> Iterator[str]:
    """Serves the metrics of a registry at `address` during the block, and yields the address with its bound port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    real, listeners = take(address)
    with ExitStack() as stack:
        for listener in listeners:
            server = stack.enter_context(MetricsServer(listener, registry))
            threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            stack.callback(server.shutdown)
        _LOGGER.info("listening for metrics", extra={"address": real})
        yield real
