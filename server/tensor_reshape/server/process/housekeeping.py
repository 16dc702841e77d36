"""Periodic tasks of a server: abort calls without progress, return memory, and end a process that cannot serve."""

import logging
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensor_reshape.runtime.allocators import release_freed_memory
from tensor_reshape.server.process.logs import flush_logs

SWEEP_SECONDS = 0.05
"""Interval of the check for calls without progress, while there are calls."""

IDLE_SECONDS = 0.25
"""Interval of the housekeeper otherwise. Each wake-up costs 0.1 ms."""

QUIET_SECONDS = 5.0
"""Time with little memory in use after which freed memory is returned to the system."""

KEPT_BYTES = 44 * 1024 * 1024
"""Memory above that at the start which the process may keep, because returning it costs more than it is worth.

A server without workers imports numpy later, which needs 12 MiB of this.
"""

CHECK_SECONDS = 0.5
"""Interval of `MemoryReturner.look`."""

RESIDENT_SECONDS = 1.0
"""Interval of reading the memory of the process, which takes longer than all other tasks."""

FUTILE_SECONDS = 60.0
"""Interval after an attempt that returned little memory."""

_QUIET_SHARE = 0.75  # fraction of quiet looks, because small calls reserve much memory for a moment
_STATM = Path("/proc/self/statm")
_LOGGER = logging.getLogger(__name__)


class MemoryReturner:
    """Returns freed memory to the system when no large messages arrive.

    The allocator keeps freed memory for the next large messages. Small calls do not prevent the return. Steady traffic
    of large messages does.
    """

    def __init__(self, quiet_bytes: int) -> None:
        """Uses the current memory as the memory that the process needs without calls.

        Args:
            quiet_bytes: the reserved memory of calls up to which traffic counts as small.
        """
        self._quiet_bytes = quiet_bytes
        self._base = read_resident_bytes()
        self._looks: deque[bool] = deque(maxlen=round(QUIET_SECONDS / CHECK_SECONDS))
        self._not_before = -math.inf

    def look(self, used_bytes: int, now: float) -> bool:
        """Returns whether memory was returned. Call it every CHECK_SECONDS.

        Args:
            used_bytes: the memory that calls have reserved now.
            now: the time of `time.monotonic`.
        """
        self._looks.append(used_bytes <= self._quiet_bytes)
        quiet = len(self._looks) == self._looks.maxlen and sum(self._looks) >= _QUIET_SHARE * len(self._looks)
        # The last look must be quiet, too. Otherwise an attempt in the first second of a flood would return nothing,
        # and the next attempt would come a minute after the flood.
        if not (quiet and self._looks[-1]) or now < self._not_before:
            return False
        before = read_resident_bytes()
        if before <= self._base + KEPT_BYTES:
            self._not_before = now + RESIDENT_SECONDS
            return False
        release_freed_memory()
        returned = before - read_resident_bytes()
        self._not_before = now + (QUIET_SECONDS if returned > KEPT_BYTES else FUTILE_SECONDS)
        return True


@dataclass(slots=True)
class _Duty:
    seconds: float
    do: Callable[[], object]
    due_at: float = -math.inf


class Housekeeper:
    """A thread for periodic tasks."""

    def __init__(self, is_calm: Callable[[], bool]) -> None:
        """Starts without tasks. Wakes up every SWEEP_SECONDS, or every IDLE_SECONDS while `is_calm` returns True."""
        self._is_calm = is_calm
        self._duties: list[_Duty] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, seconds: float, do: Callable[[], object]) -> None:
        """Adds a task with its interval, which is longer while the server is calm. Call it before `start`."""
        self._duties.append(_Duty(seconds, do))

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(IDLE_SECONDS if self._is_calm() else SWEEP_SECONDS):
            now = time.monotonic()
            for duty in self._duties:
                if now < duty.due_at:
                    continue
                duty.due_at = now + duty.seconds
                try:
                    duty.do()
                except Exception:
                    _LOGGER.exception("bug")  # and continue, because other tasks are needed


def end_process(reason: str) -> None:
    """Logs the reason and ends the process with status 1, so that its supervisor starts another.

    It uses `os._exit`, because an exception or `sys.exit` waits for threads that may never end.
    """
    _LOGGER.critical("server can no longer serve", extra={"reason": reason})
    flush_logs()
    os._exit(1)


def read_resident_bytes() -> int:
    """Returns the resident memory of the process; 0 if it cannot be read."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
