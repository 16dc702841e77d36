"""Waits for conditions that no event announces."""

import threading
import time
from collections.abc import Callable

from tensor_reshape.server.process.pools import FairLock

WAIT_SECONDS = 60.0


def await_that(condition: Callable[[], bool], seconds: float = WAIT_SECONDS, pause_seconds: float = 0.001) -> float:
    """Waits until a condition is true, and returns the seconds until then. Fails after `seconds`."""
    pause, began = threading.Event(), time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds
        pause.wait(pause_seconds)
    return time.monotonic() - began


def await_waiting(lock: FairLock, count: int) -> None:
    await_that(lambda: len(lock._waiting) >= count)
