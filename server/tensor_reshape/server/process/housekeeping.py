"""Periodic tasks that abort calls without progress, return memory, and end a process that cannot serve."""

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
"""Seconds between two checks for calls without progress, while calls are running."""

IDLE_SECONDS = 0.25
"""Seconds between two wake-ups of the housekeeper if no call needs checks. A wake-up costs 0.1 ms."""

QUIET_SECONDS = 5.0
"""Seconds with few reservations of memory after which freed memory is returned to the system."""

KEPT_BYTES = 44 * 1024 * 1024
"""Number of bytes by which the resident memory may grow after the start before freed memory is returned.

Returning less memory costs more than it gains. numpy, which a server without workers imports after its start, needs
12 MiB of these bytes.
"""

CHECK_SECONDS = 0.5
"""Seconds between two calls of `MemoryReturner.check`."""

RESIDENT_SECONDS = 1.0
"""Seconds between two readings of the resident memory. A reading takes longer than all other tasks."""

FUTILE_SECONDS = 60.0
"""Seconds until the next attempt after an attempt that has returned little memory."""

_QUIET_SHARE = 0.75  # the fraction of checks that must be quiet. Small calls reserve much memory for a moment.
_STATM = Path("/proc/self/statm")
_LOGGER = logging.getLogger(__name__)


class MemoryReturner:
    """Returns freed memory to the system when no large messages arrive.

    The allocator keeps freed memory for the next large messages. Steady traffic of large messages prevents the return
    of memory, but small calls do not.
    """

    def __init__(self, quiet_bytes: int) -> None:
        """Assumes that the process needs its current resident memory even without calls.

        Args:
            quiet_bytes: the largest sum of memory reservations, in bytes, at which a check counts as quiet.
        """
        self._quiet_bytes = quiet_bytes
        self._base = read_resident_bytes()
        self._checks: deque[bool] = deque(maxlen=round(QUIET_SECONDS / CHECK_SECONDS))  # True for each quiet check
        self._not_before = -math.inf

    def check(self, used_bytes: int, now: float) -> bool:
        """Returns memory to the system if the last checks were quiet. Call this method every CHECK_SECONDS.

        Args:
            used_bytes: the memory in bytes that calls have reserved now.
            now: the current time of `time.monotonic`.

        Returns:
            whether memory was returned.
        """
        self._checks.append(used_bytes <= self._quiet_bytes)
        quiet = len(self._checks) == self._checks.maxlen and sum(self._checks) >= _QUIET_SHARE * len(self._checks)
        # The last check must be quiet, too. An attempt in the first second of heavy traffic would return little memory
        # and delay the next attempt by a minute.
        if not (quiet and self._checks[-1]) or now < self._not_before:
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
class _Task:
    seconds: float
    do: Callable[[], object]
    due_at: float = -math.inf


class Housekeeper:
    """A thread for periodic tasks."""

    def __init__(self, is_calm: Callable[[], bool]) -> None:
        """Creates a thread without tasks.

        Args:
            is_calm: function that returns True if the thread may wake up every IDLE_SECONDS instead of SWEEP_SECONDS.
        """
        self._is_calm = is_calm
        self._tasks: list[_Task] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, seconds: float, do: Callable[[], object]) -> None:
        """Adds a task that runs every `seconds`, or less often while the server is calm. Call this before `start`."""
        self._tasks.append(_Task(seconds, do))

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(IDLE_SECONDS if self._is_calm() else SWEEP_SECONDS):
            now = time.monotonic()
            for task in self._tasks:
                if now < task.due_at:
                    continue
                task.due_at = now + task.seconds
                try:
                    task.do()
                except Exception:
                    _LOGGER.exception("bug")  # the loop continues, because the server needs the other tasks


def end_process(reason: str) -> None:
    """Logs the reason and ends the process with status 1, so that a supervisor starts another process.

    `os._exit` ends the process, because an exception or `sys.exit` would wait for threads that may never end.
    """
    _LOGGER.critical("server can no longer serve", extra={"reason": reason})
    flush_logs()
    os._exit(1)


def read_resident_bytes() -> int:
    """Returns the resident memory of the process in bytes, or 0 if it cannot be read."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
