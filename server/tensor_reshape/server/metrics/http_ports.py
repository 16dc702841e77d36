"""The HTTP port for Prometheus: prometheus_client's handler on the server of the standard library.

The port has no encryption, no authentication and no limit of connections, each of which has a thread. So it must only
be reachable from a trusted network. A connection that is silent for `SILENT_SECONDS` is closed.
"""

import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from prometheus_client import MetricsHandler
from prometheus_client.registry import Collector

from tensor_reshape.server.transport.listeners import take

SILENT_SECONDS = 2.0
"""Time to wait for a part of a request, and to send a response."""

_LOGGER = logging.getLogger(__name__)


class _Handler(MetricsHandler):
    timeout = SILENT_SECONDS


class _Server(ThreadingHTTPServer):
    def __init__(self, listener: socket.socket, registry: Collector) -> None:
        super().__init__(listener.getsockname(), _Handler.factory(registry), bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_activate()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as socketserver has it
        """Logs an error, unless it is a failure of the connection. The standard library would write it to stderr."""
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
            server = stack.enter_context(_Server(listener, registry))
            threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            stack.callback(server.shutdown)
        _LOGGER.info("listening for metrics", extra={"address": real})
        yield real
