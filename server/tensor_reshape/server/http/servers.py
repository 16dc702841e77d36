"""A process that serves HTTP, as a worker of a supervisor or as the only process."""

import threading
from collections.abc import Callable

from tensor_reshape.server.config import STOP_SIGNALS, Config
from tensor_reshape.server.http.applications import Application
from tensor_reshape.server.http.ports import HttpPort
from tensor_reshape.server.http.replies import Reply
from tensor_reshape.server.process.logs import report_lost_records
from tensor_reshape.server.process.signals import catch_signals, stop_at_signal
from tensor_reshape.server.telemetry.shared_counters import SharedCounters

_BEAT_SECONDS = 0.5
_REPORT_SECONDS = 1.0


class HttpServer:
    """A server that binds its address when it is created, serves after `start`, and stops gracefully.

    Attributes:
        address: the address with its bound port.
    """

    def __init__(
        self,
        config: Config,
        *,
        counters: SharedCounters | None = None,
        scrape: Callable[[], Reply] | None = None,
        shares_ports: bool = False,
    ) -> None:
        """Binds `config.http_listen`, which must be set.

        Args:
            config: the configuration, with the share of the memory budget of this process.
            counters: the memory for metrics, or None without metrics.
            scrape: returns the metrics for the path `/metrics`, which does not exist by default.
            shares_ports: whether other processes listen on the same address.

        Raises:
            ConfigError: the address cannot be bound, or a configured file is invalid.
        """
        self._config = config
        self._app = Application(config, counters=counters, scrape=scrape)
        self._port = HttpPort(config.http_listen or "", self._app, shares=shares_ports)
        self._port.repeat(_REPORT_SECONDS, report_lost_records)
        self.address = self._port.address

    def beat(self, send: Callable[[], None]) -> None:
        """Sends heartbeats with `send` while the event loop runs. Call this method before `start`."""
        self._port.repeat(_BEAT_SECONDS, send)

    def start(self) -> None:
        """Starts to accept requests."""
        self._port.start()

    def stop(self, hurry: threading.Event) -> None:
        """Reports that it is not ready for the drain period, then closes the port and waits for running calls.

        Args:
            hurry: an event that ends all waits early.
        """
        self._app.is_serving = False
        hurry.wait(self._config.drain_seconds)
        self._port.end(hurry)


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
