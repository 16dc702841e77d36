"""The HTTP port that Prometheus reads, with the handler of prometheus_client on the standard library's server.

The port has no encryption and no authentication, so it belongs into a network of the operator. What strangers can cause
there is bounded anyway: the server takes CONNECTIONS_PER_SECOND, because to take more would keep the calls of the
service from the interpreter, and shuts each of them after REQUEST_SECONDS, whatever it does. The thread of a connection
ends with it. So there are never more threads than connections that come in that time.
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
"""How many connections are taken; the others wait. A few scrapers ask every few seconds, and a page takes 5 ms."""

REQUEST_SECONDS = 2.0
"""How long a connection has for its request and its answer, and up to half a second more."""

_LOGGER = logging.getLogger(__name__)


class MetricsServer(ThreadingTCPServer):
    """Serves the metrics of a registry to the connections of one listener, each on a thread of its own."""

    daemon_threads = True  # the end of the process waits for none of them
    request_queue_size = 64

    def __init__(self, listener: socket.socket, registry: Collector) -> None:
        """Takes over `listener`, which is bound."""
        super().__init__(listener.getsockname(), MetricsHandler.factory(registry), bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._taken: deque[tuple[float, socket.socket]] = deque()  # when it was, and the connection
        self.server_activate()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Takes a connection; see `socketserver`."""
        time.sleep(1 / CONNECTIONS_PER_SECOND)  # also if it fails: perhaps no descriptors are left
        connection, address = super().get_request()
        self._taken.append((time.monotonic(), connection))
        return connection, address

    def service_actions(self) -> None:
        """Shuts the connections whose time is over; called after each request, and twice a second."""
        while self._taken and self._taken[0][0] <= time.monotonic() - REQUEST_SECONDS:
            _, connection = self._taken.popleft()
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as socketserver has it
        """Logs a failure, unless the connection has failed."""
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOGGER.error("bug", exc_info=error)


@contextmanager
def serve_metrics(address: str, registry: Collector) -> Iterator[str]:
    """Serves the metrics of a registry at `address` during the block; yields the address with its real port.

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
