"""Waits for conditions that no event announces."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable

from tensor_reshape.server.process.fair_locks import FairLock

WAIT_SECONDS = 60.0


def await_that(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Waits until a condition is true. Fails after `seconds`."""
    pause, deadline = threading.Event(), time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.001)


def await_waiting(lock: FairLock, count: int) -> None:
    """Waits until `count` threads wait for the lock."""
    await_that(lambda: len(lock._waiting) >= count)


def interrupt(process: "subprocess.Popen[str]") -> str:
    """Sends SIGINT to a process until it ends. Returns its standard output.

    Python ignores an interruption that arrives in a finalizer or in a callback from C, so a single signal may have no
    effect.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                raise
