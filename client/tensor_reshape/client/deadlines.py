"""Deadlines of calls, including their retries and pauses, and all calls of a batch."""

import time

LEAST_TIMEOUT_SECONDS = 1e-3
"""The shortest timeout for grpc, which then ends the call with its usual error."""


class Deadline:
    """The time at which a call must have ended, including its retries and pauses."""

    def __init__(self, seconds: float | None) -> None:
        """Starts the clock. None: no deadline."""
        # Monotonic, so that a change of the system clock has no effect.
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float | None:
        """The remaining seconds, in the form that grpc takes."""
        return None if self._end is None else max(self._end - time.monotonic(), LEAST_TIMEOUT_SECONDS)

    def is_within(self, seconds: float) -> bool:
        """Whether the deadline is less than `seconds` away."""
        return self._end is not None and time.monotonic() + seconds >= self._end
