"""When a call is sent again: every method is pure, so whatever became of the last attempt does not matter.

A server that is there and has too much to do says so with a RetryInfo: it is asked again after that time and a random
back-off on top, until the deadline. A server that was lost (UNAVAILABLE, or CANCELLED, as calls end that one receives
while it stops) is awaited, without sending anything, until one is there: see `PATIENCE_SECONDS`.

What is sent again costs the server, so it draws from the client's `RetryBudget`, with one exception: the first time
that a call loses its server. All the calls that were under way are lost together when a server goes, so a budget for
these would fail just the busy clients at every restart; and the attempts to connect again, which end when the server is
back, cost it nothing. A call that is lost once more after its server came back does draw: that server is up.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from grpc import StatusCode

from tensor_reshape.client.budgets import LEAST_TIMEOUT_SECONDS, Deadline
from tensor_reshape.client.errors import ServiceError
from tensor_reshape.client.options import Endpoint
from tensor_reshape.rules.errors import LimitError, TensorReshapeError

PATIENCE_SECONDS = 10.0
"""How long a call waits, all in all, for servers that are lost or cannot be reached, within its deadline."""

_LOST = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 5.0
_MAX_DOUBLINGS = 6  # what leads to the maximum


class Pause(NamedTuple):
    """What comes before the next attempt.

    Attributes:
        seconds: how long to wait in any case.
        is_for_server: whether to wait for a server after that.
    """

    seconds: float
    is_for_server: bool


class Attempts:
    """The attempts of one message or one stream; several may share a deadline."""

    def __init__(self, endpoint: Endpoint, deadline: Deadline) -> None:
        """Starts with the first."""
        self.deadline = deadline
        self._endpoint = endpoint
        self._failures = 0  # of either kind: how far the back-off has grown
        self._losses = 0
        self._patience_seconds = PATIENCE_SECONDS

    def note_success(self) -> None:
        """Notes that the call was answered."""
        self._endpoint.budget.note_success()

    def note_progress(self) -> None:
        """Notes that a server has taken up the stream: from here it is a new one that would be awaited."""
        self._patience_seconds = PATIENCE_SECONDS

    def plan_pause(self, error: TensorReshapeError) -> Pause | None:
        """Returns what to wait for before the next attempt; None where there is none: the call ends with `error`."""
        if self._endpoint.closed:
            return None
        if isinstance(error, LimitError) and error.retry_seconds is not None:
            pause = self._plan_busy(error.retry_seconds)
        elif isinstance(error, ServiceError) and error.code in _LOST:
            pause = self._plan_lost()
        else:
            return None
        return None if pause is None or self.deadline.is_within(pause.seconds) else pause

    @contextmanager
    def wait_for_server(self) -> Iterator[float]:
        """Spends the call's patience while the block runs, which is given the seconds that it may take."""
        start = time.monotonic()
        remaining = self.deadline.remaining_seconds
        patience = max(self._patience_seconds, LEAST_TIMEOUT_SECONDS)
        try:
            yield patience if remaining is None else min(patience, remaining)
        finally:
            self._patience_seconds -= time.monotonic() - start

    def _plan_busy(self, least_seconds: float) -> Pause | None:
        if not self._endpoint.budget.take():
            return None
        return Pause(least_seconds + self._draw_backoff(), is_for_server=False)

    def _plan_lost(self) -> Pause | None:
        self._losses += 1
        if self._patience_seconds <= 0 or (self._losses > 1 and not self._endpoint.budget.take()):
            return None
        pause = Pause(self._draw_backoff(), is_for_server=True)
        self._patience_seconds -= pause.seconds
        return pause

    def _draw_backoff(self) -> float:
        """Returns a random time around one that doubles: many callers must not come back together."""
        limit = min(_INITIAL_BACKOFF_SECONDS * 2 ** min(self._failures, _MAX_DOUBLINGS), _MAX_BACKOFF_SECONDS)
        self._failures += 1
        return random.uniform(limit / 2, limit)  # noqa: S311 - no secret
