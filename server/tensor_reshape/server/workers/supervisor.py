"""The supervisor: starts workers on ports that it holds, replaces those that end or hang, and stops them all.

- It takes no call and does not import grpc, so nothing that callers do can harm it, and it needs a third of the memory.
- It holds each port without listening: only processes of the same user can share it, and it stays taken while no worker
  lives.
- One loop does everything: it takes signals, and lets time pass for the slots, which decide about their workers.
- Until all workers have served once, the end of any of them ends the supervisor: somebody waits to see the cause. Later
  only a worker that cannot serve what is configured does, when no other serves.
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
_TICK_SECONDS = 0.1  # how late the message of a worker or a deadline is noticed, and of a worker that serves
_CALM_SECONDS = 0.5


def supervise(config: Config) -> None:
    """Serves with `config.workers` processes until SIGTERM, SIGINT or SIGHUP; a second one ends the calls under way.

    Args:
        config: its `engine` is the one that the environment asks grpc for, which the workers inherit.

    Raises:
        ConfigError: an address is taken, or a worker cannot be started.
    """
    if sys.platform != "linux":
        message = "several workers are only supported on Linux"
        raise ConfigError(message)
    with ExitStack() as stack:
        # Port 0 becomes a number here, once: the workers would each get another.
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
            stack.enter_context(closing(slot))  # whatever ends the supervisor, no worker is left
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
    """Shows what the workers count, which is in memory of this process as well, and yields where.

    No worker is asked or waited for.

    The port has threads of its own here. What strangers can have it do is bounded, and keeps no tick waiting for long.

    Raises:
        ConfigError: the address cannot be bound.
    """
    # Only here, because what shows metrics takes memory, and time to import.
    from tensor_reshape.server.counted_methods import list_methods  # noqa: PLC0415
    from tensor_reshape.server.metrics.http_ports import serve_metrics  # noqa: PLC0415
    from tensor_reshape.server.metrics.prometheus_format import Source, build_registry  # noqa: PLC0415
    from tensor_reshape.server.metrics.shared_counters import SharedCounters  # noqa: PLC0415

    def find_serving() -> str:
        return PUBLIC if _find_obstacle(slots) else CORE

    every = [SharedCounters(list_methods(), slot.order.counters) for slot in slots]

    def list_sources() -> list[Source]:
        return [
            Source(slot.order.number, counters, slot.pid, slot.serves, max(0, slot.starts - 1), slot.silences)
            for slot, counters in zip(slots, every, strict=True)
        ]

    return serve_metrics(address, build_registry(config, find_serving, list_sources))


class Supervisor:
    """Lets time pass for the slots of the workers until all are to stop, and have."""

    def __init__(self, slots: Sequence[Slot], announce: Callable[[], None]) -> None:
        """Supervises the workers in `slots`; calls `announce` when all of them serve for the first time."""
        self._slots = slots
        self._announce = announce
        # Whether all workers have served at once, which is when the server is up. Stays so when some are replaced.
        self._announced = False
        # Whether a signal to stop has come. The next one hurries.
        self._stopping = False

    def run(self) -> None:
        """Starts the workers and returns when all have stopped.

        Raises:
            ConfigError: a worker ended before all of them served, or cannot be started again and no other serves.
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
        # When this process was suspended, the workers probably were as well, so their silence proves nothing: a tick
        # never counts for much more than it should have taken.
        self._advance(min(time.monotonic() - begin, 2 * wait_seconds))

    def _handle_signal(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return  # it has ended the wait; the slots find out who has ended, since one signal may stand for several
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
        """Ends the supervisor if the next worker in a slot would fare no better than the one that has ended.

        Raises:
            ConfigError: it would not.
        """
        if not self._announced:
            raise ConfigError(slot.refusal or "a worker ended before it served")
        if not slot.refusal:
            return
        # For example, a certificate was replaced by junk: workers that serve have read the former one.
        if not any(other.serves for other in self._slots):
            raise ConfigError(slot.refusal)
        _LOGGER.error("worker cannot be started", extra={"reason": slot.refusal})


def _find_obstacle(slots: Sequence[Slot]) -> str:
    """Returns why the public parts of grpcio serve in the workers; empty if they do not, as far as is known."""
    return next((slot.obstacle for slot in slots if slot.obstacle), "")


def _hold(address: str, stack: ExitStack) -> str:
    """Holds an address until the end of `stack`, and returns it with its real port."""
    real, sockets = hold(address)
    for held in sockets:
        stack.enter_context(held)
    return real
