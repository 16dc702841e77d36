"""What a server listens on besides its addresses for calls: a port for health alone, and one for HTTP."""

import ssl
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.health_ports import HealthPort
from tensor_reshape.server.process.housekeeping import end_process
from tensor_reshape.server.service.methods import ReshapeService

if TYPE_CHECKING:
    from tensor_reshape.server.http.gateways import Gateway

_POLL_SECONDS = 0.02


class ExtraListeners:
    """Those that a configuration asks for; each is bound when made, and stops with the server.

    Attributes:
        health_address: where health alone is served, with its real port; None: nowhere.
        http_address: likewise, of HTTP.
    """

    def __init__(self, config: Config, max_connections: int, *, shares: bool) -> None:
        """Binds the port for health; `open_gateway` follows.

        Args:
            config: of the server, with its real ports.
            max_connections: that each address takes.
            shares: whether other processes listen on the same ports.

        Raises:
            ConfigError: the address cannot be bound.
        """
        self._config = config
        self._shares = shares
        self._gateway: Gateway | None = None
        self._health_port = None
        if config.health_listen is not None:
            self._health_port = HealthPort(config, config.health_listen, max_connections, shares=shares)
        self.health_address = None if self._health_port is None else self._health_port.address

    def open_gateway(
        self,
        service: Service,
        answers: ReshapeService,
        is_serving: Callable[[], bool],
        find_context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Binds the port for HTTP, where there is to be one; see `Gateway`.

        Raises:
            ConfigError: it is not installed, or its address cannot be bound.
        """
        if self._config.http_listen is not None:
            self._gateway = import_gateway()(
                self._config,
                service,
                answers,
                is_serving=is_serving,
                find_context=find_context,
                shares=self._shares,
            )

    @property
    def services(self) -> tuple[Service, ...]:
        """What has an engine of its own, which is to be swept."""
        return () if self._health_port is None else (self._health_port.service,)

    @property
    def http_address(self) -> str | None:
        """Where HTTP is spoken, with its real port; None: nowhere."""
        return None if self._gateway is None else self._gateway.port.address

    @property
    def max_http_connections(self) -> int:
        """How many are taken."""
        return 0 if self._gateway is None else self._gateway.port.max_connections

    def start(self) -> None:
        """Starts to serve."""
        if self._health_port is not None:
            self._health_port.start()
        if self._gateway is not None:
            self._gateway.port.start()

    def look(self, now: float, turns: int | None) -> None:
        """Sees to what has changed; to be called many times a second, on one thread.

        Args:
            now: by `time.monotonic`.
            turns: see `transports.Server`.
        """
        if self._health_port is not None:
            self._health_port.look(now, turns)
        if self._gateway is not None and self._gateway.port.is_deaf:
            end_process("the thread that serves HTTP has ended")

    def stop_serving(self) -> None:
        """Says NOT_SERVING from now on."""
        if self._health_port is not None:
            self._health_port.stop_serving()

    def dismiss(self) -> None:
        """Has callers over HTTP leave: who is idle at once, and others when they have been answered."""
        if self._gateway is not None:
            self._gateway.port.dismiss()

    def end(self, deadline: float, hurry: threading.Event) -> None:
        """Ends all that is under way: of what callers over HTTP have begun, what is not over by the deadline.

        Args:
            deadline: by `time.monotonic`.
            hurry: cuts the wait short when set.
        """
        if self._gateway is not None:
            while not (self._gateway.port.is_idle or hurry.is_set()) and time.monotonic() < deadline:
                hurry.wait(_POLL_SECONDS)
            self._gateway.end()
        if self._health_port is not None:
            self._health_port.end()


def import_gateway() -> "type[Gateway]":
    """Returns what speaks HTTP.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from tensor_reshape.server.http.gateways import Gateway  # noqa: PLC0415 - an extra, which few servers need
    except ImportError as error:
        message = f"--http-listen needs the extra tensor-reshape[http]: {error}"
        raise ConfigError(message) from error
    return Gateway
