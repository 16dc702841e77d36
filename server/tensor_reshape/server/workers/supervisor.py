"""The supervisor: starts the workers, replaces workers that end or hang, and stops them all.

- It serves no calls and does not import grpc. So clients cannot affect it, and it needs a third of a worker's memory.
- It binds each port without listening. Only processes of the same user can share the port, and the port stays reserved
  when no worker runs.
- One loop receives signals and advances the time of the slots, which control their workers.
- Until all workers have served once, the end of any worker ends the supervisor, so an operator sees the cause at the
  start. Later, a worker that cannot start ends it only if no other worker serves.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing

from tensor_reshape.server.config import CORE, PUBLIC, STOP_SIGNALS, Config, ConfigError
from tensor_reshape.server.process.signals import catch_signals
from tensor_reshape.server.startup_log import announce
from tensor_reshape.server.transport.listeners import hold
from tensor_reshape.server.workers.messages import Order
from tensor_reshape.server.workers.slots import Slot

_LOGGER = logging.getLogger(__name__)
_TICK_SECONDS = 0.1  # interval of the loop while workers start or stop
_CALM_SECONDS = 0.5  # interval while all workers serve


def supervise(config: Config) -> None:
    """Serves with `config.workers` processes until SIGTERM, SIGINT or SIGHUP. A second signal ends running calls.

    Args:
        config: the configuration; its `io_engine` is already set in the environment, which the workers inherit.

    Raises:
        ConfigError: an address is in use, or a worker cannot start.
    """
    if sys.platform != "linux":
        message = "--workers above 1 needs Linux, where processes can share a port"
        raise ConfigError(message)
    with ExitStack() as stack:
        # Port 0 is resolved here, because each worker would get another port.
        health = config.health_listen and _hold(config.health_listen, stack)
        http = config.http_listen and _hold(config.http_listen, stack)
        share = config.for_worker(tuple(_hold(address, stack) for address in config.listen), health, http)
        counts = config.metrics_listen is not None
        slots = [
            Slot(
                Order(
                    number=number, config=share, counters=os.memfd_create("tensor-reshape-metrics") if counts else None
                )
            )
            for number in range(1, config.workers + 1)
        ]
        for slot in slots:
            stack.enter_context(closing(slot))  # no worker outlives the supervisor
        metrics_address = None
        if config.metrics_listen is not None:
            metrics_address = stack.enter_context(_show_metrics(config, config.metrics_listen, slots))
        ports = {
            "health_address": share.health_listen,
            "http_address": share.http_listen,
            "metrics_address": metrics_address,
        }
        Supervisor(slots, lambda: announce(share.listen, config, _find_obstacle(slots), **ports)).run()


def _show_metrics(config: Config, address: str, slots: Sequence[Slot]) -> AbstractContextManager[str]:
    """Serves the metrics of all workers from shared memory, and yields the address.

    The port has its own threads. Their number and rate are limited, so they do not delay the supervisor's loop.

    Raises:
        ConfigError: the address cannot be bound.
    """
    # Imported only if needed, to save memory and time.
    from tensor_reshape.server.counted_methods import list_methods  # noqa: PLC0415
    from tensor_reshape.server.metrics.http_ports import serve_metrics  # noqa: PLC0415
    from tensor_reshape.server.metrics.prometheus_format import Source, build_registry  # noqa: PLC0415
    from tensor_reshape.server.metrics.shared_counters import SharedCounters  # noqa: PLC0415

    def find_grpc_api() -> str:
        return PUBLIC if _find_obstacle(slots) else CORE

    every = [SharedCounters(list_methods(), slot.order.counters) for slot in slots]

    def list_sources() -> list[Source]:
        return [
            Source(slot.order.number, counters, slot.pid, slot.serves, max(0, slot.starts - 1), slot.silences)
            for slot, counters in zip(slots, every, strict=True)
        ]

    return serve_metrics(address, build_registry(config, find_grpc_api, list_sources))


class Supervisor:
    """Runs the loop of the supervisor."""

    def __init__(self, slots: Sequence[Slot], announce: Callable[[], None]) -> None:
        """Supervises the workers in `slots`. Calls `announce` when all of them serve for the first time."""
        self._slots = slots
        self._announce = announce
        self._announced = False  # whether all workers have served at the same time
        self._stopping = False  # whether a stop signal has arrived; the next one ends running calls

    def run(self) -> None:
        """Starts the workers, and returns when all have stopped after a signal.

        Raises:
            ConfigError: a worker ended before all of them served, or cannot start again and no other worker serves.
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
        # If this process was suspended, the workers probably were, too, and sent no heartbeats. So a tick counts
        # at most twice its normal time.
        self._advance(min(time.monotonic() - begin, 2 * wait_seconds))

    def _handle_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return  # it ended the wait; the slots check all processes, because signals may be merged
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
                self._follow_end(slot)
        if not self._announced and all(slot.serves for slot in self._slots):
            self._announced = True
            self._announce()

    def _follow_end(self, slot: Slot) -> None:
        """Ends the supervisor if another worker would fail like the one that has ended.

        Raises:
            ConfigError: the next worker would fail, and no other worker serves.
        """
        if not self._announced:
            raise ConfigError(slot.rejection or "a worker ended before it served calls; see the log for the cause")
        if not slot.rejection:
            return
        # For example, a certificate was replaced by an invalid one. Other workers still use the previous one.
        if not any(other.serves for other in self._slots):
            raise ConfigError(slot.rejection)
        _LOGGER.error("worker cannot be started", extra={"reason": slot.rejection})


def _find_obstacle(slots: Sequence[Slot]) -> str:
    """Returns the reason for the fallback server in the workers; empty if the core serves, as far as is known."""
    return next((slot.obstacle for slot in slots if slot.obstacle), "")


def _hold(address: str, stack: ExitStack) -> str:
    """Binds an address until the end of `stack`, and returns it with its bound port."""
    real, sockets = hold(address)
    for held in sockets:
        stack.enter_context(held)
    return real
