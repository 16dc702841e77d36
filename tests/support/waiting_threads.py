"""Waits for threads that wait for a fair lock."""

import threading

from tensor_reshape.server.engine.fair_locks import FairLock


def await_waiting(lock: FairLock, count: int) -> None:
    """Waits until `count` threads wait for the lock."""
    pause = threading.Event()
    while len(lock._waiting) < count:
        pause.wait(0.001)
