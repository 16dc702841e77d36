"""Stops a server after a signal."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

_LOGGER = logging.getLogger(__name__)


class Stoppable(Protocol):
    """A server that can be stopped."""

    def stop(self, hurry: threading.Event) -> None:
        """Waits for running calls to finish. The event ends all waits early."""


def stop(server: Stoppable, cause: str, await_hurry: Callable[[threading.Event], object]) -> None:
    """Stops a server gracefully.

    Args:
        server: the running server.
        cause: the cause for the log.
        await_hurry: function that runs on its own thread, and sets an event when running calls must end at once.
    """
    _LOGGER.info("stopping", extra={"cause": cause})
    hurry = threading.Event()
    with suppress(RuntimeError):  # `start` raises RuntimeError if the system cannot start another thread
        threading.Thread(target=await_hurry, args=(hurry,), daemon=True).start()
    server.stop(hurry)
    _LOGGER.info("stopped")


def hurry_at_signal(signals: int, hurry: threading.Event) -> None:
    """Waits for the next signal and sets the event.

    Args:
        signals: the pipe of `catch_signals`.
        hurry: the event.
    """
    os.read(signals, 1)
    hurry.set()
