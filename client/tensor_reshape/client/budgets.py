"""What a call may spend: its time, and what its client grants for attempts beyond the first."""

import time
from threading import Lock

LEAST_TIMEOUT_SECONDS = 1e-3
"""What grpc is given where less is left: it then ends the call as any other whose deadline passes."""

_MAX_TOKENS, _TOKEN_RATIO = 100.0, 0.1


class RetryBudget:
    """The token bucket of gRPC's retry throttling (gRFC A6); one for each client, safe to use from any thread.

    A failure takes a token, an answered call gives a tenth of one back, and at half of the tokens or less nothing is
    sent again. So a server that stays full sees little more than the first attempt of each call.
    """

    def __init__(self) -> None:
        """Starts full."""
        self._tokens = _MAX_TOKENS
        self._lock = Lock()

    def note_success(self) -> None:
        """Gives back a part of a token."""
        if self._tokens < _MAX_TOKENS:  # without the lock: a client that never fails does not pay for it
            with self._lock:
                self._tokens = min(self._tokens + _TOKEN_RATIO, _MAX_TOKENS)

    def take(self) -> bool:
        """Takes a token for a failure; returns whether the call may be sent again."""
        with self._lock:
            self._tokens = max(self._tokens - 1, 0.0)
            return self._tokens > _MAX_TOKENS / 2


class Deadline:
    """When a call must have ended, its attempts and its waits included."""

    def __init__(self, seconds: float | None) -> None:
        """Starts the clock; None: never."""
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def remaining_seconds(self) -> float | None:
        """What is left, as grpc takes it."""
        return None if self._end is None else max(self._end - time.monotonic(), LEAST_TIMEOUT_SECONDS)

    def is_within(self, seconds: float) -> bool:
        """Whether the deadline comes within so many seconds."""
        return self._end is not None and time.monotonic() + seconds >= self._end
