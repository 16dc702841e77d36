"""What a server does beside its calls: it gives up those that hang, and memory that it does not need."""

import logging
import math
import threading
import time

from tensor_reshape.server.admission import Admission
from tensor_reshape.wire.allocators import release_freed_memory

SWEEP_SECONDS = 0.1
"""How often calls without progress are looked for."""

IDLE_SECONDS = 5.0
"""How long no call must have been under way until freed memory goes back to the system."""

_LOGGER = logging.getLogger(__name__)


class Housekeeper:
    """A thread that sweeps the admission, and returns memory when the server has become idle."""

    def __init__(self, admission: Admission) -> None:
        """Starts with `start`."""
        self._admission = admission
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()

    def _run(self) -> None:
        seen_calls, busy_at = 0, math.inf
        while not self._stopped.wait(SWEEP_SECONDS):
            try:
                self._admission.sweep()
            except Exception:
                _LOGGER.exception("bug")  # and go on: nobody else gives up calls that hang
            now = time.monotonic()
            if not self._admission.is_idle or self._admission.entered_calls != seen_calls:
                seen_calls, busy_at = self._admission.entered_calls, now
            elif now - busy_at > IDLE_SECONDS:
                release_freed_memory()
                busy_at = math.inf
