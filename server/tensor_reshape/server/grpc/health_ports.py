"""A port that serves only health checks, without TLS.

Probes without a certificate, such as those of Kubernetes, can use the health port.

- The health port is a separate server that has only the health methods and accepts only small messages.
- The health port has its own thread. If the main server's receiving thread makes no turns, the health port reports
  NOT_SERVING, so that probes detect a hanging server.
- A turn is one iteration of the loop of the receiving thread. The receiving thread makes at least one turn a second, or
  slightly fewer on a busy machine.
"""

import math
from dataclasses import replace

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.effects import perform
from tensor_reshape.server.grpc.builtin import build_service
from tensor_reshape.server.grpc.health import Health
from tensor_reshape.server.grpc.options import build_options
from tensor_reshape.server.grpc.routes import build_server
from tensor_reshape.server.process.listeners import bind

_STOP_SECONDS = 5.0
SILENT_SECONDS = 5.0
"""Seconds without a turn of the receiving thread after which the health port reports NOT_SERVING.

Normally a call occupies the receiving thread only for milliseconds.
"""


class HealthPort:
    """A health service on its own port.

    Attributes:
        address: the address with its bound port.
        service: the health service. The server must call `sweep` on the engine of this service.
    """

    def __init__(self, config: Config, address: str, max_connections: int, *, shares: bool) -> None:
        """Binds `address`.

        Args:
            config: the configuration of the server. The settings for connections also apply to the health port.
            address: the value of `Config.health_listen`.
            max_connections: the maximum number of connections of the port.
            shares: whether other processes listen on the same port.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._health = Health()
        self._is_stopping = False
        self._turns = 0
        self._turned_at = math.inf  # the time at which `_turns` last changed, or infinity before the first update
        small = replace(config, max_message_bytes=MAX_HEADER_BYTES)
        self.service = build_service(small, self._health.build_methods({}))
        self._server = build_server((self.service,), build_options(small, max_connections, shares=shares))
        self.address = bind(self._server, address, None, held=shares)

    def start(self) -> None:
        """Starts to accept health checks."""
        self._server.start()

    def update(self, now: float, turns: int) -> None:
        """Updates the reported status. Call this method many times a second, always on the same thread.

        Args:
            now: the current time of `time.monotonic`.
            turns: the number of loop iterations of the thread that receives calls.
        """
        if turns != self._turns:
            self._turns, self._turned_at = turns, now
        is_turning = now - self._turned_at < SILENT_SECONDS
        if self._is_stopping or is_turning == self._health.is_serving():
            return
        if is_turning:
            self._health.resume_serving()
        if not is_turning or self._is_stopping:  # another thread may just have called `stop_serving`
            self._health.stop_serving()

    def stop_serving(self) -> None:
        """Makes the port report NOT_SERVING from now on."""
        self._is_stopping = True
        self._health.stop_serving()

    def end(self) -> None:
        """Ends all calls and stops the port."""
        self._health.end_watches()
        perform(self.service.engine.close())
        self._server.stop()
        self._server.cancel_calls()
        self._server.wait(_STOP_SECONDS)
