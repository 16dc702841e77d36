"""Retries: when a call is sent again, and how often.

Every method is pure, so a repeated attempt does no harm. Three limits apply:

- The `Deadline` of the call, including its pauses.
- The `RetryBudget` of the client, because retries cost the server. The first time that a call loses its server is free:
  all running calls are lost together when a server stops, so a budget would fail the busiest clients at every restart.
  If the call is lost again after the server came back, the retry uses the budget.
- The patience of the call: the total time that it waits for unavailable servers.

An overloaded server returns a RetryInfo. The call is retried after that delay plus a random back-off. If the server was
lost, the call waits until a server is connected and sends nothing before. A server is lost if the status is
UNAVAILABLE, CANCELLED (calls that a stopping server receives), or missing (a proxy ended the call).

This module only plans. `sync` and `aio` send and wait.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import NamedTuple

from grpc import StatusCode

from tensor_reshape.client.deadlines import LEAST_TIMEOUT_SECONDS, Deadline
from tensor_reshape.client.errors import CallTimeoutError, ServiceError
from tensor_reshape.rules.errors import LimitError, TensorReshapeError

PATIENCE_SECONDS = 10.0
"""Total time that a call waits for servers that are lost or unreachable, within its deadline."""

_LOST = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
# The status that gRPC reports if a call ends without a status of a server, for example when a proxy resets it. Both
# codes have other causes too, so the text of the core decides.
_RESET = (StatusCode.INTERNAL, StatusCode.UNKNOWN)
_RESET_WORDS = ("Stream removed", "RST_STREAM")
_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 5.0
_MAX_DOUBLINGS = 6  # enough to reach the maximum
_MAX_TOKENS, _TOKEN_RATIO = 100.0, 0.1  # the values of the examples in gRFC A6


class RetryBudget:
    """The token bucket of gRPC's retry throttling (gRFC A6). Each client has one, which threads may share.

    A failure takes a token, and a successful call returns a tenth of one. With half of the tokens or fewer, nothing is
    retried. An overloaded server therefore gets few calls in addition to first attempts.

    Attributes:
        is_closed: whether the client is closed. Then nothing is retried.
    """

    def __init__(self) -> None:
        """Starts full."""
        self.is_closed = False  # set once by `close`; read without the lock
        self._tokens = _MAX_TOKENS
        self._lock = Lock()  # guards the tokens

    def close(self) -> None:
        """Ends all retries, so that no call outlives its client."""
        self.is_closed = True

    def note_success(self) -> None:
        """Returns a part of a token."""
        if self._tokens < _MAX_TOKENS:  # checked without the lock, so that a client without failures pays nothing
            with self._lock:
                self._tokens = min(self._tokens + _TOKEN_RATIO, _MAX_TOKENS)

    def take(self) -> bool:
        """Takes a token for a failure. Returns whether the call may be retried."""
        with self._lock:
            self._tokens = max(self._tokens - 1, 0.0)
            return self._tokens > _MAX_TOKENS / 2


class Pause(NamedTuple):
    """The pause before the next attempt.

    Attributes:
        seconds: time to wait in any case.
        is_for_server: whether to wait for a connected server after that.
    """

    seconds: float
    is_for_server: bool


class Attempts:
    """The attempts of one message or stream. Only one thread or task uses it at a time.

    Attributes:
        deadline: the deadline of the call, which all calls of a batch share.
    """

    def __init__(self, budget: RetryBudget, deadline: Deadline) -> None:
        """Starts before the first attempt."""
        self.deadline = deadline
        self._budget = budget  # shared by all calls of the client
        self._failures = 0  # failures of both kinds, for the growth of the back-off
        self._losses = 0  # lost servers; the first one is free
        self._patience_seconds = PATIENCE_SECONDS  # the remaining patience
        # The error of the previous attempt, as a copy without a traceback, whose frames would hold the caller's array.
        self._rejection: LimitError | None = None

    def note_success(self) -> None:
        """Records that the call has a response."""
        self._rejection = None
        self._budget.note_success()

    def note_progress(self) -> None:
        """Records that a server has accepted the stream. A later loss counts as a new one."""
        self._rejection = None
        self._patience_seconds = PATIENCE_SECONDS

    def plan_pause(self, error: TensorReshapeError) -> Pause | None:
        """Returns the pause before the next attempt. None: there is none, and the call ends with `error`."""
        if isinstance(error, CallTimeoutError):
            return None  # the previous error may be more helpful: see `choose_end`
        self._rejection = None
        if self._budget.is_closed:
            return None
        # The server decides by its RetryInfo, also for reasons that this client does not know.
        if isinstance(error, LimitError) and error.retry_seconds is not None:
            self._rejection = copy(error)
            pause = self._plan_busy(error.retry_seconds)
        elif isinstance(error, ServiceError) and _is_lost(error):
            pause = self._plan_lost()
        else:
            return None
        return None if pause is None or self.deadline.is_within(pause.seconds) else pause

    def choose_end(self, error: TensorReshapeError) -> TensorReshapeError:
        """Returns the error of the call when `error` ended its last attempt.

        If the server was overloaded until the time was up, that error is returned. It is more helpful, and the result
        must not depend on whether the time was up during an attempt or during a pause.
        """
        rejection, self._rejection = self._rejection, None
        return rejection if rejection is not None and isinstance(error, CallTimeoutError) else error

    @contextmanager
    def wait_for_server(self) -> Iterator[float]:
        """Uses up the patience of the call while the block runs. Yields the seconds that are left."""
        start = time.monotonic()
        remaining = self.deadline.remaining_seconds
        patience = max(self._patience_seconds, LEAST_TIMEOUT_SECONDS)
        try:
            yield patience if remaining is None else min(patience, remaining)
        finally:
            self._patience_seconds -= time.monotonic() - start

    def _plan_busy(self, least_seconds: float) -> Pause | None:
        if not self._budget.take():
            return None
        return Pause(least_seconds + self._draw_backoff(), is_for_server=False)

    def _plan_lost(self) -> Pause | None:
        self._losses += 1
        if self._patience_seconds <= 0 or (self._losses > 1 and not self._budget.take()):
            return None
        pause = Pause(self._draw_backoff(), is_for_server=True)
        self._patience_seconds -= pause.seconds
        return pause

    def _draw_backoff(self) -> float:
        """Returns a random time with a mean that doubles, so that many clients do not return at the same time."""
        limit = min(_INITIAL_BACKOFF_SECONDS * 2 ** min(self._failures, _MAX_DOUBLINGS), _MAX_BACKOFF_SECONDS)
        self._failures += 1
        return random.uniform(limit / 2, limit)  # noqa: S311 - not a secret


def _is_lost(error: ServiceError) -> bool:
    """Whether a call has lost its server, so that the status is not the server's."""
    is_reset = error.code in _RESET and any(words in error.message for words in _RESET_WORDS)
    return is_reset or error.code in _LOST
