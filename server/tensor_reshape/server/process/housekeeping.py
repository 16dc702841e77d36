"""Periodic tasks that abort calls without progress, return freed memory, and end a process that cannot serve."""

import logging
import math
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tensor_reshape.runtime.allocators import release_freed_memory
from tensor_reshape.server.process.logs import flush_logs

SWEEP_SECONDS = 0.05
"""Seconds between two checks for calls without progress, while calls are running."""

IDLE_SWEEP_SECONDS = 0.25
"""Seconds between two wake-ups of the housekeeping thread if no call needs checks. A wake-up costs 0.1 ms."""

RETURN_SECONDS = 5.0
"""Seconds between two calls of `MemoryReturner.check`."""

KEPT_BYTES = 44 * 1024 * 1024
"""Number of bytes by which the resident memory of a process may grow before freed memory is returned.

Returning less memory costs more than it gains. If a client sends a tensor with strides, the server imports numpy, which
needs 12 MiB of these bytes.
"""

_STATM = Path("/proc/self/statm")
_LOGGER = logging.getLogger(__name__)


class MemoryReturner:
    """Returns freed memory to the system when calls need little memory.

    The allocator keeps freed memory for the next large messages. If a check happens between two large messages, the
    next messages take longer, because the system clears the returned memory. The checks are rare, so this costs less
    than 1 % of the processor time.
    """

    def __init__(self, quiet_bytes: int) -> None:
        """Measures the current resident memory, and uses it as the memory that the process needs without calls.

        Args:
            quiet_bytes: memory is returned only while calls have reserved at most this number of bytes.
        """
        self._quiet_bytes = quiet_bytes
        self._base = read_resident_bytes()

    def check(self, used_bytes: int) -> bool:
        """Returns freed memory to the system if the process uses much more memory than without calls.

        Call this method every RETURN_SECONDS.

        Args:
            used_bytes: the memory in bytes that calls have reserved now.

        Returns:
            whether memory was returned to the system.
        """
        if used_bytes > self._quiet_bytes or read_resident_bytes() <= self._base + KEPT_BYTES:
            return False
        return release_freed_memory()


@dataclass(slots=True)
class _Task:
    seconds: float
    do: Callable[[], object]
    due_at: float = -math.inf


class Housekeeper:
    """Runs periodic tasks on a separate thread."""

    def __init__(self, is_calm: Callable[[], bool]) -> None:
        """Creates the thread without starting it. At first, it has no tasks.

        Args:
            is_calm: a function that returns whether the thread may wake up every IDLE_SWEEP_SECONDS instead of every
                SWEEP_SECONDS.
        """
        self._is_calm = is_calm
        self._tasks: list[_Task] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, seconds: float, do: Callable[[], object]) -> None:
        """Adds a task that runs every `seconds` seconds, or less often while `is_calm` returns True.

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
        while not self._stopped.wait(IDLE_SWEEP_SECONDS if self._is_calm() else SWEEP_SECONDS):
            now = time.monotonic()
            for task in self._tasks:
                if now < task.due_at:
                    continue
                task.due_at = now + task.seconds
                try:
                    task.do()
                except Exception:
                    # If a task raises an error because of a bug, the loop continues, because the server needs the other
                    # tasks.
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
