"""A fair lock for threads that compute, and a short switch interval of the interpreter while they do.

CPython runs one thread at a time. Several computing threads are not faster than one, and each of them can delay the
serving thread when it wakes up. Computing threads therefore take turns with a `FairLock`: first come, first served,
with a time slice for each. While one computes, the interpreter's switch interval is short, so that the serving thread
gets the interpreter soon.
"""

import sys
import threading
import time
from collections import deque

SLICE_SECONDS = 0.002
"""Time slice of a thread that computes while others wait. A switch costs about 50 us."""

SWITCH_SECONDS = 0.0001
"""Longest wait of the serving thread for a computing thread each time it wakes up, which is several times a call.

CPython's default is 5 ms. If no thread wakes up, there is no switch and no cost. During a batch, four waits took 7.7 ms
with the default, 1.5 ms with 0.5 ms, 1.0 ms with this value and 0.8 ms with half of it. The processor time of the batch
was the same in all cases.
"""


class _FastSwitches:
    """Shortens the switch interval of the interpreter while at least one user wants it."""

    def __init__(self) -> None:
        """Starts without users."""
        self._lock = threading.Lock()  # guards the next two; never held for long
        self._users = 0
        self._interval = 0.0  # the interval before the first user came, to be restored

    def begin(self) -> None:
        """Adds a user; `end` must follow."""
        with self._lock:
            if not self._users:
                self._interval = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_SECONDS, self._interval))
            self._users += 1

    def end(self) -> None:
        """Removes a user."""
        with self._lock:
            self._users -= 1
            if not self._users:
                sys.setswitchinterval(self._interval)


FAST_SWITCHES = _FastSwitches()
"""The switch interval of this process, also for other code that would delay the serving thread."""


class FairLock:
    """A lock that threads get in the order of arrival. It is a context manager and not reentrant."""

    def __init__(self) -> None:
        """Starts unlocked."""
        self._lock = threading.Lock()  # guards the next two; never held for long
        # One lock for each waiting thread, held until its turn, in the order of arrival.
        self._waiting: deque[threading.Lock] = deque()
        self._taken = False  # whether a thread has the turn; stays True while the turn passes to the next thread
        self._until = 0.0  # end of the slice by `time.monotonic`; used only by the thread that has the turn

    def __enter__(self) -> None:
        """Waits for the turn of this thread."""
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
        """Passes the turn to the next thread."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False
                FAST_SWITCHES.end()

    def give_way(self) -> None:
        """Passes the turn and waits for it again, if the slice is over and other threads wait."""
        if self._waiting and time.monotonic() >= self._until:
            self.__exit__()
            self.__enter__()
