"""The supervisor, which starts the workers, replaces workers that end or hang, and stops all workers.

- The supervisor serves no calls and does not import grpc. Clients therefore cannot affect the supervisor, and the
  supervisor needs a third of the memory of a worker.
- The supervisor binds each port without listening. A port therefore stays reserved while no worker runs, and only
  processes of the same user can share the port.
- The loop of the supervisor receives signals and calls `Slot.advance` for each slot, which controls one worker.
- If any worker ends before all workers have served at the same time, the supervisor also ends. If a worker cannot
  start, an operator therefore sees the cause at the start.
- After all workers have served, the supervisor ends if a worker cannot start and no other worker serves.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing

from tensor_reshape.server.config import STOP_SIGNALS, Config, ConfigError
from tensor_reshape.server.process.signals import catch_signals
from tensor_reshape.server.startup_log import announce
from tensor_reshape.server.transport.listeners import hold
from tensor_reshape.server.workers.messages import Order
from tensor_reshape.server.workers.slots import Slot

_LOGGER = logging.getLogger(__name__)
_TICK_SECONDS = 0.1  # while workers start or stop, the supervisor's loop runs at this interval in seconds
_CALM_SECONDS = 0.5  # while all workers serve, the supervisor's loop runs at this interval in seconds


def supervise(config: Config) -> None:
    """Serves with `config.workers` processes until SIGTERM, SIGINT or SIGHUP. A second stop signal ends running calls.

    Args:
        config: the configuration. The environment variables that the workers inherit must already select the I/O
            engine.

    Raises:
        ConfigError: an address is in use, or a worker cannot start.
    """
    if sys.platform != "linux":
        message = "--workers above 1 and --http-listen need Linux, because only there can processes share a port. Use "
        message += "--workers 1, and `tensor-reshape http` beside the server"
        raise ConfigError(message)
    with ExitStack() as stack:
        # The supervisor replaces port 0 by a free port, because each worker would otherwise bind a different port.
        health = config.health_listen and _hold(config.health_listen, stack)
        share = config.for_worker(tuple(_hold(address, stack) for address in config.listen), health)
        shares, http = [share] * config.workers, None
        if config.http_listen is not None:
            http = _hold(config.http_listen, stack)
            shares += [config.for_http(http)] * config.http_workers
        slots = [Slot(_make_order(number, share, config)) for number, share in enumerate(shares, 1)]
        for slot in slots:
            # Closing the slot kills its worker, so that no worker outlives the supervisor.
            stack.enter_context(closing(slot))
        metrics_address = None
        if config.metrics_listen is not None:
            metrics_address = stack.enter_context(_show_metrics(config.metrics_listen, slots))
        ports = {
            "health_address": share.health_listen,
            "http_address": http,
            "metrics_address": metrics_address,
        }
        Supervisor(slots, lambda: announce(share.listen, config, **ports)).run()


def _make_order(number: int, share: Config, config: Config) -> Order:
    counters = None if config.metrics_listen is None else os.memfd_create("tensor-reshape-metrics")
    return Order(number=number, config=share, counters=counters)


def _show_metrics(address: str, slots: Sequence[Slot]) -> AbstractContextManager[str]:
    """Serves the metrics of all workers from shared memory, and yields the address with its bound port.

    The metrics port has its own threads, so a request for metrics does not block the supervisor's loop.

    Raises:
        ConfigError: the address cannot be bound.
    """
    # To save memory and time, the modules for metrics are imported only if metrics are configured.
    from tensor_reshape.server.counted_methods import list_methods  # noqa: PLC0415
    from tensor_reshape.server.metrics.http_ports import serve_metrics  # noqa: PLC0415
    from tensor_reshape.server.metrics.prometheus_format import Source, build_registry  # noqa: PLC0415
    from tensor_reshape.server.metrics.shared_counters import SharedCounters  # noqa: PLC0415

    every = [SharedCounters(list_methods(), slot.order.counters) for slot in slots]

    def list_sources() -> list[Source]:
        return [
            Source(slot.order.number, counters, slot.pid, slot.serves, max(0, slot.starts - 1), slot.hangs)
            for slot, counters in zip(slots, every, strict=True)
        ]

    return serve_metrics(address, build_registry(list_sources))


class Supervisor:
    """The loop of the supervisor."""

    def __init__(self, slots: Sequence[Slot], announce: Callable[[], None]) -> None:
        """Supervises the workers in `slots`. Calls `announce` when all workers serve for the first time."""
        self._slots = slots
        self._announce = announce
        self._announced = False  # whether there was a time at which all workers served
        self._stopping = False  # Whether a stop signal has arrived. A second stop signal ends running calls.

    def run(self) -> None:
        """Starts the workers, and returns when all workers have stopped after a signal.

        Raises:
            ConfigError: the end of a worker ends the supervisor (see `_handle_end`).
        """
        with catch_signals((*STOP_SIGNALS, signal.SIGCHLD)) as signals:
            self._advance(0)  # starts the workers
            while not self._stopping or any(slot.pid for slot in self._slots):
                self._tick(signals)
        _LOGGER.info("stopped")

    def _tick(self, signals: int) -> None:
        begin = time.monotonic()
        wait_seconds = _CALM_SECONDS if all(slot.serves for slot in self._slots) else _TICK_SECONDS
        ready, _, _ = select.select([signals], [], [], wait_seconds)
        for number in os.read(signals, 64) if ready else b"":
            self._handle_signal(signal.Signals(number))
        # If the supervisor was suspended, the workers were probably also suspended and sent no heartbeats. The clock of
        # each worker slot therefore advances by at most twice the normal interval, so that these workers are not
        # killed.
        self._advance(min(time.monotonic() - begin, 2 * wait_seconds))

    def _handle_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            # The signal SIGCHLD only interrupts the wait of the supervisor's loop. The system may merge several SIGCHLD
            # signals, so the slots check all worker processes after each wait.
            return
        if not self._stopping:
            _LOGGER.info("stopping", extra={"cause": number.name})
        for slot in self._slots:
            if self._stopping:
                slot.hurry()
            else:
                slot.stop()
        self._stopping = True

    def _advance(self, seconds: float) -> None:
        for slot in self._slots:
            if slot.advance(seconds) and not self._stopping:
                self._handle_end(slot)
        if not self._announced and all(slot.serves for slot in self._slots):
            self._announced = True
            self._announce()

    def _handle_end(self, slot: Slot) -> None:
        """Decides whether the end of a worker ends the supervisor.

        Raises:
            ConfigError: the worker has ended before all workers served, or cannot start while no other worker serves.
        """
        if not self._announced:
            raise ConfigError(slot.rejection or "a worker ended before all workers served. See the log for the cause")
        if not slot.rejection:
            return
        # A worker may be unable to start because, for example, a new certificate is invalid. Workers that already serve
        # still use the previous certificate.
        if not any(other.serves for other in self._slots):
            raise ConfigError(slot.rejection)
        _LOGGER.error("worker cannot be started", extra={"reason": slot.rejection})


def _hold(address: str, stack: ExitStack) -> str:
    """Keeps an address bound until `stack` is closed. Returns the address with its bound port."""
    if address.startswith("unix:"):  # only one worker serves a unix socket, and it binds the socket itself
        return address
    real, sockets = hold(address)
    for held in sockets:
        stack.enter_context(held)
    return real
