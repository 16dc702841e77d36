"""One thread at a time computes behind a lock, and a fast switch between those that compute and those that serve.

CPython runs one thread at a time: threads that compute beside each other are no faster than one after another, and each
of them is one more that the serving thread waits behind whenever it wakes up. So those that compute take turns here,
first come, first served, and hand on after a slice; and while anybody does, behind whichever lock, the interpreter asks
whoever computes to let go sooner.
"""

import sys
import threading
import time
from collections import deque

SLICE_SECONDS = 0.002
"""How long one computes while others wait: a switch costs some 50 us."""

SWITCH_SECONDS = 0.0001
"""How long the serving thread may wait for one that computes, each time it wakes up: several times a call.

CPython's default is 5 ms. Where nobody wakes up, there is no switch, and it costs nothing. Beside a batch, four waits
took 7.7 ms with the default, 1.5 with 0.5 ms, 1.0 with this, 0.8 with half of it; the batch as much processor time.
"""


class _FastSwitches:
    """Has the interpreter, of which there is one, switch fast as long as anybody wants it to."""

    def __init__(self) -> None:
        """Nobody does."""
        self._lock = threading.Lock()  # guards the next two, for moments
        self._users = 0
        self._interval = 0.0  # what was set before the first of them came, to be set again

    def begin(self) -> None:
        """Begins; `end` follows."""
        with self._lock:
            if not self._users:
                self._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_SECONDS, self._interval))
            self._users += 1

    def end(self) -> None:
        """Ends one of those that have begun."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._interval)


FAST_SWITCHES = _FastSwitches()
"""Of this process: for whoever else would keep the serving thread waiting."""


class FairLock:
    """A lock that is handed on in the order of arrival; a context manager, not reentrant."""

    def __init__(self) -> None:
        """Starts free."""
        self._lock = threading.Lock()  # guards the next two, for moments
        # A gate for each thread, locked until its turn; first come first.
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False  # whether a thread has the turn; it stays so while the turn is handed on
        self._until = 0.0  # by `time.monotonic`: when the slice ends; touched by the one whose turn it is alone

    def __enter__(self) -> None:
        """Waits for the turn."""
        with self._lock:
            if self._taken:
                gate = threading.Lock()
                gate.acquire()
                self._waiting.append(gate)
            else:
                self._taken, gate = True, None
                FAST_SWITCHES.begin()
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
                FAST_SWITCHES.end()

    def give_way(self) -> None:
        """Hands the turn on and waits for the next one, where the slice is over and others wait."""
        if self._waiting and time.monotonic() >= self._until:
            self.__exit__()
            self.__enter__()
