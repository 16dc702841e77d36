"""The optional listeners of a server.

One optional listener is a port only for health checks, and the other is a port for JSON over HTTP.
"""

import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tensor_reshape.runtime.lazy_imports import advise_install
from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.engine.services import Service
from tensor_reshape.server.health_ports import HealthPort
from tensor_reshape.server.oip.inferences import Inference
from tensor_reshape.server.service.methods import ReshapeService

if TYPE_CHECKING:
    from tensor_reshape.server.http.gateways import BuildRoutes, Gateway

_POLL_SECONDS = 0.02


class ExtraListeners:
    """The optional listeners that are configured. All optional listeners stop together with the server.

    Attributes:
        health_address: the address for health checks with its bound port, or None if no such address is configured.
        http_address: the address for HTTP with its bound port, or None if no such address is configured.
    """

    def __init__(self, config: Config, max_connections: int, *, shares: bool) -> None:
        """Binds the port for health checks. After the constructor, call `open_gateway`.

        Args:
            config: the configuration of the server, with its bound ports.
            max_connections: the maximum number of connections of each address.
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
        reshapes: ReshapeService,
        inference: Inference,
        is_serving: Callable[[], bool],
        find_context: Callable[[], ssl.SSLContext] | None,
    ) -> None:
        """Binds the port for HTTP if it is configured (see `Gateway`).

        Raises:
            ConfigError: the extra `[http]` is not installed, or the address cannot be bound.
        """
        if self._config.http_listen is not None:
            gateway, build_routes = import_gateway()
            self._gateway = gateway(
                self._config,
                service,
                reshapes,
                is_serving=is_serving,
                find_context=find_context,
                shares=self._shares,
                build_routes=partial(
                    build_routes,
                    inference=inference,
                    max_bytes=self._config.max_message_bytes,
                    is_ready=is_serving,
                ),
            )

    @property
    def services(self) -> tuple[Service, ...]:
        """The services of these listeners, which have their own engines.

        The server must call `sweep` on these engines.
        """
        return () if self._health_port is None else (self._health_port.service,)

    @property
    def http_address(self) -> str | None:
        """The address for HTTP with its bound port, or None if no such address is configured."""
        return None if self._gateway is None else self._gateway.port.address

    @property
    def max_http_connections(self) -> int:
        """The maximum number of HTTP connections."""
        return 0 if self._gateway is None else self._gateway.port.max_connections

    def start(self) -> None:
        """Starts to accept requests."""
        if self._health_port is not None:
            self._health_port.start()
        if self._gateway is not None:
            self._gateway.port.start()

    def update_health(self, now: float, turns: int) -> None:
        """Updates the health status. Call this method many times a second, always on the same thread.

        Args:
            now: the current time of `time.monotonic`.
            turns: the value of `grpc_core.servers.Server.turns`.
        """
        if self._health_port is not None:
            self._health_port.update(now, turns)

    def stop_serving(self) -> None:
        """Makes the health port report NOT_SERVING from now on."""
        if self._health_port is not None:
            self._health_port.stop_serving()

    def drain(self) -> None:
        """Closes idle HTTP connections at once, and other HTTP connections after their current response."""
        if self._gateway is not None:
            self._gateway.port.drain()

    def end(self, deadline: float, hurry: threading.Event) -> None:
        """Waits for running HTTP requests, and then closes all listeners.

        Args:
            deadline: the time of `time.monotonic` at which HTTP requests are aborted.
            hurry: an event that ends the wait early.
        """
        if self._gateway is not None:
            while not (self._gateway.port.is_idle or hurry.is_set()) and time.monotonic() < deadline:
                hurry.wait(_POLL_SECONDS)
            self._gateway.end()
        if self._health_port is not None:
            self._health_port.end()


def import_gateway() -> "tuple[type[Gateway], BuildRoutes]":
    """Returns the class of the HTTP gateway, and the function that builds the routes of the Open Inference Protocol.

    Raises:
        ConfigError: the extra `[http]` is not installed.
    """
    try:
        from tensor_reshape.server.http.gateways import Gateway  # noqa: PLC0415 - an optional extra
        from tensor_reshape.server.oip_rest.routes import build_rest_routes  # noqa: PLC0415 - as above
    except ImportError as error:
        message = f"--http-listen needs the extra http, because {error.name} is missing: {advise_install('http')}"
        raise ConfigError(message) from error
    return Gateway, build_rest_routes
