"""What a server does beside its calls: it gives up those that hang, returns memory, ends when it cannot serve."""

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
"""How often calls without progress are looked for, while the service has calls."""

IDLE_SECONDS = 0.25
"""How often the housekeeper looks for something to do otherwise: each time costs 0.1 ms."""

QUIET_SECONDS = 5.0
"""How long calls must have taken little memory until what has been freed goes back to the system."""

KEPT_BYTES = 44 * 1024 * 1024
"""What the process may keep above what it had at start: to return it costs more than it is worth.

Twelve MiB of it are those of numpy, which a lone server imports later, and which do not come back.
"""

CHECK_SECONDS = 0.5
"""How often `MemoryReturner.look` is to be called."""

RESIDENT_SECONDS = 1.0
"""What passes until the memory of the process is read again, which takes longer than all other duties."""

FUTILE_SECONDS = 60.0
"""What passes after an attempt that gave little back."""

_QUIET_SHARE = 0.75  # of the looks in QUIET_SECONDS: small calls may be seen at the moment that they reserve much
_STATM = Path("/proc/self/statm")
_LOGGER = logging.getLogger(__name__)


class MemoryReturner:
    """Decides when freed memory goes back to the system, and gives it.

    The allocator is told to keep freed memory for the next large messages. When none come, it is returned, whatever
    small calls go on meanwhile; steady large traffic keeps it.
    """

    def __init__(self, quiet_bytes: int) -> None:
        """Takes what the process has now as what it needs without calls.

        Args:
            quiet_bytes: what calls may have set aside while they count as taking little.
        """
        self._quiet_bytes = quiet_bytes
        self._base = read_resident_bytes()
        self._looks: deque[bool] = deque(maxlen=round(QUIET_SECONDS / CHECK_SECONDS))
        self._not_before = -math.inf

    def look(self, used_bytes: int, now: float) -> bool:
        """Returns whether memory was returned; to be called every CHECK_SECONDS.

        Args:
            used_bytes: what calls have set aside now.
            now: by `time.monotonic`.
        """
        self._looks.append(used_bytes <= self._quiet_bytes)
        quiet = len(self._looks) == self._looks.maxlen and sum(self._looks) >= _QUIET_SHARE * len(self._looks)
        # In the first second of a flood most looks are quiet yet: an attempt then gives nothing back, and the next one
        # would come a minute after the flood.
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
    """One thread for everything that is to be done from time to time."""

    def __init__(self, is_calm: Callable[[], bool]) -> None:
        """Has nothing to do yet; wakes up every SWEEP_SECONDS, or every IDLE_SECONDS while `is_calm` returns True."""
        self._is_calm = is_calm
        self._duties: list[_Duty] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def add(self, seconds: float, do: Callable[[], object]) -> None:
        """Adds what is to be done in this interval, or later while it is calm; before `start`. It must not block."""
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
                    _LOGGER.exception("bug")  # and go on: nothing else gives up calls that hang


def end_process(reason: str) -> None:
    """Logs why, and ends the process with 1: whoever started it will start another.

    Not by an exception or `sys.exit`, which wait for threads that may never end.
    """
    _LOGGER.critical("cannot serve any more", extra={"reason": reason})
    flush_logs()
    os._exit(1)


def read_resident_bytes() -> int:
    """Returns what the process has in memory; 0 where the system does not tell, or there is no descriptor left."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
