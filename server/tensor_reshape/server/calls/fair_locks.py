"""One thread at a time works out shapes, and a fast switch between it and those that serve.

CPython runs one thread at a time: threads that compute beside each other are no faster than one after another, and each
of them is one more that the serving thread waits behind whenever it wakes up. So those that compute take turns here,
first come, first served, and hand on after a slice; and while one does, the interpreter asks it to let go sooner.
"""

import sys
import threading
import time
from collections import deque

SLICE_SECONDS = 0.002
"""How long one computes while others wait: a switch costs some 50 us."""

SWITCH_SECONDS = 0.0005
"""How long the serving thread may wait for one that computes, each time it wakes up. CPython's default is 5 ms."""


class FairLock:
    """A lock that is handed on in the order of arrival; a context manager, not reentrant."""

    def __init__(self) -> None:
        """Starts free."""
        self._lock = threading.Lock()  # guards the next two, for moments
        self._waiting: deque[threading.Lock] = (
            deque()
        )  # a gate for each thread, locked until its turn, first come first
        self._taken = False  # whether a thread has the turn; it stays so while the turn is handed on
        self._until = 0.0  # by `time.monotonic`: when the slice ends; touched by the one whose turn it is alone
        self._switch_seconds = 0.0  # the interval that was set before the turn was taken, to be set again

    def __enter__(self) -> None:
        """Waits for the turn."""
        with self._lock:
            if self._taken:
                gate = threading.Lock()
                gate.acquire()
                self._waiting.append(gate)
            else:
                self._taken, gate = True, None
                self._switch_seconds = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_SECONDS, self._switch_seconds))
        if gate is not None:
            gate.acquire()
        self._until = time.monotonic() + SLICE_SECONDS

    def __exit__(self, *_: object) -> None:
        """Hands the turn on."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
                sys.setswitchinterval(self._switch_seconds)

    def give_way(self) -> None:
        """Hands the turn on and waits for the next one, where the slice is over and others wait."""
        if self._waiting and time.monotonic() >= self._until:
            self.__exit__()
            self.__enter__()
