"""The deadline of a call or a batch.

The time until the deadline includes all retries and pauses, and all calls of the batch.
"""

import time

LEAST_TIMEOUT_SECONDS = 1e-3
"""The shortest timeout that is passed to grpc. A call with this timeout ends with grpc's usual timeout error."""


class Deadline:
    """The time at which a call must have ended, including its retries and the pauses between them.

    Attributes:
        seconds: the timeout of the call. With None, the call may take any time.
    """

    def __init__(self, seconds: float | None) -> None:
        """Starts the clock."""
        self.seconds = seconds
        # The clock is monotonic, so a change of the system time has no effect.
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float | None:
        """The remaining seconds, as the `timeout` argument of grpc. None without a deadline."""
        return None if self._end is None else max(self._end - time.monotonic(), LEAST_TIMEOUT_SECONDS)

    def is_within(self, seconds: float) -> bool:
        """Whether the deadline is less than `seconds` away."""
        return self._end is not None and time.monotonic() + seconds >= self._end
