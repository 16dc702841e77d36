"""Until when a call may take: its attempts, its waits, and all calls of a batch."""

import time

LEAST_TIMEOUT_SECONDS = 1e-3
"""What grpc is given where less is left: it then ends the call as any other whose deadline passes."""


class Deadline:
    """When a call must have ended, its attempts and its waits included."""

    def __init__(self, seconds: float | None) -> None:
        """Starts the clock; None: never."""
        # Monotonic: a clock that is set must neither end a call nor keep it.
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float | None:
        """What is left, as grpc takes it."""
        return None if self._end is None else max(self._end - time.monotonic(), LEAST_TIMEOUT_SECONDS)

    def clip(self, seconds: float) -> float:
        """Returns so many seconds, or what is left where that is less."""
        return min(self.remaining_seconds or seconds, seconds)

    def is_within(self, seconds: float) -> bool:
        """Whether the deadline comes within so many seconds."""
        return self._end is not None and time.monotonic() + seconds >= self._end
