"""What a server does beside its calls: it gives up those that hang, and memory that it does not need."""

import threading
import time

from tensor_reshape.server.admission import SWEEP_SECONDS, Admission
from tensor_reshape.wire.allocators import release_freed_memory

IDLE_SECONDS = 5.0
"""How long no call must have been under way until freed memory goes back to the system."""


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
        idle_since: float | None = None
        while not self._stopped.wait(SWEEP_SECONDS):
            self._admission.sweep()
            if not self._admission.is_idle:
                idle_since = time.monotonic()
            elif idle_since is not None and time.monotonic() - idle_since > IDLE_SECONDS:
                release_freed_memory()
                idle_since = None
