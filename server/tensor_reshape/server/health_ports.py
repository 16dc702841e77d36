"""A port for health only, in plain text: for probes without a certificate, such as those of Kubernetes.

- It is a server of its own with only the methods of Health, so clients reach nothing else there, and its messages are
  small.
- It also answers NOT_SERVING while the thread that receives the calls of the service makes no turn. The port has a
  thread of its own, which would otherwise answer for a server that hangs. The other thread makes a turn at least once a
  second, somewhat later on a busy machine. The fallback server reports no turns.
"""

import math
from dataclasses import replace

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.builtin.health import Health
from tensor_reshape.server.builtin.methods import build_service
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.effects import perform
from tensor_reshape.server.transport.listeners import bind
from tensor_reshape.server.transport.options import build_options
from tensor_reshape.server.transports import build_server

_STOP_SECONDS = 5.0
SILENT_SECONDS = 5.0
"""How long the service's thread may make no turn. One answer that is made on it takes some milliseconds."""


class HealthPort:
    """Answers on a port of its own whether a server serves.

    Attributes:
        address: where, with its real port.
        service: what is served, whose engine is to be swept.
    """

    def __init__(self, config: Config, address: str, max_connections: int, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            config: of the server that it speaks of; of its limits the port has those of connections.
            address: as `Config.health_listen` has it.
            max_connections: how many connections it takes.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._health = Health()
        self._is_stopping = False
        self._turns: int | None = 0
        self._turned_at = math.inf  # when these were last seen to change; infinite until they do
        small = replace(config, max_message_bytes=MAX_HEADER_BYTES, compression=False)
        self.service = build_service(small, self._health.build_methods({}))
        self._server = build_server((self.service,), build_options(small, max_connections, shares=shares))
        self.address = bind(self._server, address, None, held=shares)

    def start(self) -> None:
        """Starts to serve."""
        self._server.start()

    def look(self, now: float, turns: int | None) -> None:
        """Says what has changed; to be called many times a second, on one thread.

        Args:
            now: by `time.monotonic`.
            turns: how many the thread has made that receives the calls of the service; None: nobody knows.
        """
        if turns is None or turns != self._turns:
            self._turns, self._turned_at = turns, now
        is_turning = now - self._turned_at < SILENT_SECONDS
        if self._is_stopping or is_turning == self._health.is_serving():
            return
        if is_turning:
            self._health.resume_serving()
        if not is_turning or self._is_stopping:  # looked at again: the server may have begun to stop on another thread
            self._health.stop_serving()

    def stop_serving(self) -> None:
        """Says NOT_SERVING from now on."""
        self._is_stopping = True
        self._health.stop_serving()

    def end(self) -> None:
        """Ends all that is under way there."""
        self._health.end_watches()
        perform(self.service.engine.close())
        self._server.stop()
        self._server.cancel_calls()
        self._server.wait(_STOP_SECONDS)
