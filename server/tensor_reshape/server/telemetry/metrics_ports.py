"""The HTTP port for Prometheus, which runs prometheus_client's handler on the HTTP server of the standard library.

The metrics port has no encryption and no authentication. The number of its connections is not limited, and each
connection has a thread. Therefore, use an address that only a trusted network can reach. The metrics port closes a
connection on which nothing arrives for `SILENT_SECONDS`.
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

from tensor_reshape.server.process.listeners import take

SILENT_SECONDS = 2.0
"""Seconds that the metrics port waits to receive a part of a request or to send a part of a response."""

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
        """Logs an error, unless the connection has failed.

        Without this method, the standard library would write the error to stderr.
        """
        error = sys.exception()
        if not isinstance(error, OSError):
            _LOGGER.error("bug", exc_info=error)


@contextmanager
def serve_metrics(address: str, registry: Collector) -> Iterator[str]:
    """Serves the metrics of a registry during the `with` block, and yields the address with its bound port.

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
