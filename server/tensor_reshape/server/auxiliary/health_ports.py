"""A port for health alone, in plain text: for probes that have no certificate, as those of Kubernetes.

- It is a server of its own with the methods of Health and no others. So what else is served cannot be reached there,
  whoever comes, and what may be sent there is small.
- It says NOT_SERVING also while the thread that receives the calls of the service makes no turn: the port has a thread
  of its own, and would otherwise answer for a server that hangs. A turn is made at least once a second, and on a busy
  machine somewhat later. Where grpcio's own loop receives the calls nothing is known of turns.
- It counts resets and connections as the other ports do, with their limits, and refuses the same headers. But it has
  its own offenders: whom this port accuses by mistake loses no connection to another, nor the other way round.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from tensor_reshape.rules.limits import MAX_HEADER_BYTES
from tensor_reshape.server.auxiliary.foreign_methods import AuxiliaryHandlers, build_health
from tensor_reshape.server.calls import serving_loops
from tensor_reshape.server.calls.header_lists import HeaderBound
from tensor_reshape.server.calls.resets import ResetBuckets
from tensor_reshape.server.calls.router import CallRouter
from tensor_reshape.server.config import Config
from tensor_reshape.server.transport.listeners import bind, find_ports
from tensor_reshape.server.transport.offenders import OffenderCloser
from tensor_reshape.server.transport.options import build_options

SILENT_SECONDS = 5.0
"""How long the service's thread may make no turn. One answer that is made on it takes some milliseconds."""


class HealthPort:
    """Says of a server on a port of its own whether it serves.

    Attributes:
        address: where, with its real port.
        resets: is told how its calls end.
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
        self.resets = ResetBuckets(config.max_resets_per_second)
        self._health, methods = build_health(self.resets)
        self._headers = HeaderBound(config.max_metadata_bytes, self.resets)
        self._is_stopping = False
        # When the service's thread has made its last turn; infinite until the first. Written on that thread alone.
        self._turned_at = math.inf
        self._server = grpc.server(
            # All methods have a route: no thread is ever asked for.
            CallRouter(ThreadPoolExecutor(1), {method.name: method.submit for method in methods}),
            options=build_options(
                replace(config, max_message_bytes=MAX_HEADER_BYTES, compression=False), max_connections, shares=shares
            ),
        )
        self._server.add_generic_rpc_handlers((AuxiliaryHandlers(methods),))
        self.address = bind(self._server, address, None, held=shares)
        self._offenders = OffenderCloser(find_ports([self.address]), self.resets.take_offenders)

    def start(self) -> None:
        """Starts to serve."""
        serving_loops.start(self._server, {}, lambda: None, self._headers)

    def note_turn(self) -> None:
        """Notes a turn of the thread that receives the calls of the service."""
        self._turned_at = time.monotonic()

    def look(self, now: float) -> None:
        """Says what has changed, and closes offenders; to be called many times a second, on one thread.

        Args:
            now: by `time.monotonic`.
        """
        self._offenders.look(now)
        turns = now - self._turned_at < SILENT_SECONDS
        if self._is_stopping or turns == self._health.is_serving():
            return
        if turns:
            self._health.resume_serving()
        if not turns or self._is_stopping:  # looked at again: the server may have begun to stop on another thread
            self._health.stop_serving()

    def stop_serving(self) -> None:
        """Says NOT_SERVING from now on."""
        self._is_stopping = True
        self._health.stop_serving()

    def end(self) -> None:
        """Ends all that is under way there."""
        self.resets.stop()
        self._health.end_watches()
        self._server.stop(None)
