"""Periodic tasks that abort calls without progress, return freed memory, and end a process that cannot serve."""

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
"""Seconds between two wake-ups of the housekeeping thread if no call needs checks. A wake-up costs 0.1 ms."""

QUIET_SECONDS = 5.0
"""Seconds with few memory reservations of calls after which freed memory is returned to the system."""

KEPT_BYTES = 44 * 1024 * 1024
"""Number of bytes by which the resident memory of a process may grow before freed memory is returned.

Returning less memory costs more than it gains. If a client sends a tensor with strides, the server imports numpy, which
needs 12 MiB of these bytes.
"""

CHECK_SECONDS = 0.5
"""Seconds between two calls of `MemoryReturner.check`."""

RESIDENT_SECONDS = 1.0
"""Seconds between two readings of the resident memory. Such a reading takes longer than all other periodic tasks."""

FUTILE_SECONDS = 60.0
"""Seconds until the next attempt to return memory, after an attempt that has returned little memory."""

# At least this fraction of the recent checks must find that calls have reserved little memory. This fraction is below
# 1, because even small calls reserve much memory for a moment.
_QUIET_SHARE = 0.75
_STATM = Path("/proc/self/statm")
_LOGGER = logging.getLogger(__name__)


class MemoryReturner:
    """Returns freed memory to the system when no large messages arrive.

    The allocator keeps freed memory for the next large messages. While large messages arrive steadily, no memory is
    returned. Small calls do not prevent that freed memory is returned.
    """

    def __init__(self, quiet_bytes: int) -> None:
        """Takes the current resident memory as the memory that the process needs without calls.

        Args:
            quiet_bytes: a check counts as quiet if calls have reserved at most this number of bytes.
        """
        self._quiet_bytes = quiet_bytes
        self._base = read_resident_bytes()
        # This deque has an entry for each recent check, which is True if calls had reserved little memory.
        self._checks: deque[bool] = deque(maxlen=round(QUIET_SECONDS / CHECK_SECONDS))
        self._not_before = -math.inf

    def check(self, used_bytes: int, now: float) -> bool:
        """Returns freed memory to the system if the last checks were quiet. Call this method every CHECK_SECONDS.

        Args:
            used_bytes: the memory in bytes that calls have reserved now.
            now: the current time of `time.monotonic`.

        Returns:
            whether memory was returned.
        """
        self._checks.append(used_bytes <= self._quiet_bytes)
        quiet = len(self._checks) == self._checks.maxlen and sum(self._checks) >= _QUIET_SHARE * len(self._checks)
        # The last check must also have found that calls had reserved little memory. In the first second of heavy
        # traffic, an attempt to return memory would return little, and would delay the next attempt by a minute.
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
            is_calm: a function that returns whether the thread may wake up every IDLE_SECONDS instead of every
                SWEEP_SECONDS.
        """
        self._is_calm = is_calm
        self._tasks: list[_Task] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, seconds: float, do: Callable[[], object]) -> None:
        """Adds a task that runs every `seconds`, or less often while `is_calm` returns True.

        Call this method before `start`.
        """
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
                    # The loop continues after a bug of a task, because the server needs the other tasks.
                    _LOGGER.exception("bug")


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
