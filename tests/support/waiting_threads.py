"""Waits for threads that wait for a fair lock."""

import threading

from tensor_reshape.server.engine.fair_locks import FairLock


def wait_for_waiting(turns: FairLock, count: int) -> None:
    """Waits until `count` threads wait for their turn."""
    pause = threading.Event()
    while len(turns._waiting) < count:
        pause.wait(0.001)
