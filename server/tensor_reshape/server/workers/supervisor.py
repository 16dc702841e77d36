"""The supervisor: starts workers on ports that it holds, replaces those that die or hang, and stops them all.

It never makes a gRPC object, and its workers are fresh interpreters: a fork would copy locks without the threads that
hold them.
"""

import logging
import os
import secrets
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from urllib.parse import quote

from tensor_reshape.server.config import Config, ConfigError
from tensor_reshape.server.transport.listeners import announce, hold
from tensor_reshape.server.workers.slots import Seat
from tensor_reshape.server.workers.worker import Order

_LOGGER = logging.getLogger(__name__)
_TICK_SECONDS = 0.1
_MAX_DIRECTORY_BYTES = 100  # a unix socket's path has 107


def supervise(config: Config, *, log_format: str, log_level: str) -> None:
    """Serves with `config.workers` processes until SIGTERM, SIGINT or SIGHUP; a second one ends the calls under way.

    Raises:
        ConfigError: an address is taken, or a worker cannot be started.
    """
    if sys.platform != "linux":
        message = "several workers share a port, which takes Linux"
        raise ConfigError(message)
    with ExitStack() as stack:
        share = config.for_worker(tuple(_hold(address, stack) for address in config.listen))
        prefix = stack.enter_context(_reserve_private_addresses(share))
        order = partial(Order, config=share, log_format=log_format, log_level=log_level)
        numbers = range(1, config.workers + 1)
        seats = [Seat(order(number=number, private_address=f"{prefix}{number}")) for number in numbers]
        for seat in seats:
            stack.enter_context(closing(seat))
        Supervisor(seats, partial(announce, share.listen, share.tls)).run()


class Supervisor:
    """Lets time pass for the workers' seats until all of them are to stop, and have."""

    def __init__(self, seats: Sequence[Seat], announce: Callable[[], None]) -> None:
        """Supervises the workers on `seats`; calls `announce` when all of them serve for the first time."""
        self._seats = seats
        self._announce = announce
        self._announced = False
        self._stopping = False

    def run(self) -> None:
        """Starts the workers and returns when all have stopped.

        Raises:
            ConfigError: a worker ended before all of them served, or cannot be started again and no other serves.
        """
        with _catch_signals() as signals:
            for seat in self._seats:
                seat.start()
            while not self._stopping or any(seat.pid for seat in self._seats):
                self._turn(signals)
        _LOGGER.info("stopped")

    def _turn(self, signals: int) -> None:
        begin = time.monotonic()
        ready, _, _ = select.select([signals], [], [], _TICK_SECONDS)
        for number in os.read(signals, 64) if ready else b"":
            self._obey(signal.Signals(number))
        # When this process was suspended, the workers may have been: what they did not say then is no silence.
        self._pass(min(time.monotonic() - begin, 2 * _TICK_SECONDS))

    def _obey(self, number: signal.Signals) -> None:
        if number == signal.SIGCHLD:
            return  # it ends the wait, and whose end it means is found by asking
        if not self._stopping:
            _LOGGER.info("stopping", extra={"cause": number.name})
        for seat in self._seats:
            if self._stopping:
                seat.hurry()
            else:
                seat.stop()
        self._stopping = True

    def _pass(self, seconds: float) -> None:
        ended = dict(_reap())
        for seat in self._seats:
            if seat.pid in ended:
                seat.end(os.waitstatus_to_exitcode(ended[seat.pid]))
                self._check_prospects(seat)
            seat.age(seconds)
        if not self._announced and all(seat.serves for seat in self._seats):
            self._announced = True
            self._announce()

    def _check_prospects(self, seat: Seat) -> None:
        """Raises where another worker would fare no better."""
        if self._stopping:
            return
        if not self._announced:
            raise ConfigError(seat.refusal or "a worker ended before it served")
        if not seat.refusal:
            return
        if not any(other.serves for other in self._seats):
            raise ConfigError(seat.refusal)
        _LOGGER.error("worker cannot be started", extra={"reason": seat.refusal})


@contextmanager
def _catch_signals() -> Iterator[int]:
    """Yields a descriptor that brings the numbers of signals, a byte each."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def _reap() -> Iterator[tuple[int, int]]:
    """Yields the children that have ended, with their status. As process 1, strangers are among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        yield pid, status


def _hold(address: str, stack: ExitStack) -> str:
    real, sockets = hold(address)
    for held in sockets:
        stack.enter_context(held)
    return real


@contextmanager
def _reserve_private_addresses(config: Config) -> Iterator[str]:
    """Yields what the workers' private addresses begin with; they are served in plain text.

    Abstract sockets need no file system, but are open to every process that has the network of this one. Where callers
    come in by TLS alone, nobody but the own user may go around it: the sockets are in a directory that is his.
    """
    if config.tls is None:
        yield f"unix-abstract:tensor-reshape-{secrets.token_hex(8)}-"
        return
    with _make_private_directory() as directory:
        yield f"unix:{quote(directory)}/"


def _make_private_directory() -> "tempfile.TemporaryDirectory[str]":
    """Makes a directory for the own user alone; a container has memory for it where its file system is read-only."""
    for parent in (None, "/dev/shm"):  # noqa: S108 - it is not shared
        with suppress(OSError):
            directory = tempfile.TemporaryDirectory(prefix="tensor-reshape-", dir=parent)
            if len(os.fsencode(directory.name)) <= _MAX_DIRECTORY_BYTES:
                return directory
            directory.cleanup()
    message = "several workers with TLS need a directory that can be written, under TMPDIR or /dev/shm"
    raise ConfigError(message)
