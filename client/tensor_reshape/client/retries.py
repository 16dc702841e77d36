"""Plans when a failed call is sent again, and how often.

No method of the service changes any state, so sending a call again does no harm. Three limits apply:

- The `Deadline` of the call limits its total time, which includes all pauses.
- The `RetryBudget` of the client limits retries, because they are additional work for a server. When a call loses its
  server for the first time, the retry does not use the budget. Otherwise, every restart of a server would use up the
  budgets of the busiest clients, because all running calls of a server fail at once when it stops. If the call loses a
  server again, the retry uses the budget.
- The patience of the call limits the total time that it waits for unavailable servers.

An overloaded server returns a RetryInfo with a delay. The call is retried after that delay plus a random back-off. If
the server was lost, the call waits until a server is connected, and sends nothing until then. A call has lost its
server in three cases. The status is UNAVAILABLE, the server cancelled the call because it was stopping, or a proxy
ended the call without a status.

This module only plans retries. The module `base` sends the calls and waits.
"""

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import NamedTuple

from grpc import StatusCode

from tensor_reshape.client.contexts import LEAST_TIMEOUT_SECONDS, Deadline
from tensor_reshape.client.errors import CallTimeoutError, ServiceError
from tensor_reshape.rules.errors import LimitError, TensorReshapeError

PATIENCE_SECONDS = 10.0
"""Total time that a call waits for lost or unreachable servers. It starts again when a server accepts a stream."""

_LOST = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
# gRPC reports one of these codes if a call ends without the status of a server, for example if a proxy resets the call.
# Both codes also have other causes, so the text of gRPC's core is checked too.
_RESET = (StatusCode.INTERNAL, StatusCode.UNKNOWN)
_RESET_WORDS = ("Stream removed", "RST_STREAM")
_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 5.0
_MAX_DOUBLINGS = 6  # after the pause between attempts has been doubled six times, it has its maximum length
_MAX_TOKENS, _TOKEN_RATIO = 100.0, 0.1  # these are the example settings of gRFC A6


class RetryBudget:
    """A token bucket that limits retries, as in gRPC's retry throttling (gRFC A6).

    Each client has one budget, which its threads share. A failure that may be retried takes a token, and a successful
    call adds a tenth of a token. If half of the tokens or fewer are left, a failed call is not retried. When a call
    loses its server for the first time, the retry takes no token. An overloaded server therefore receives few retries.

    Attributes:
        is_closed: whether the client is closed. A closed client retries no call.
    """

    def __init__(self) -> None:
        """Creates a budget with all tokens."""
        self.is_closed = False  # only `close` sets this flag, and other methods read it without the lock
        self._tokens = _MAX_TOKENS
        self._lock = Lock()  # guards the tokens

    def close(self) -> None:
        """Ends all retries, so that no call continues after its client is closed."""
        self.is_closed = True

    def record_success(self) -> None:
        """Adds a tenth of a token after a successful call."""
        # This check does not take the lock, so that it costs nothing in a client without failures.
        if self._tokens < _MAX_TOKENS:
            with self._lock:
                self._tokens = min(self._tokens + _TOKEN_RATIO, _MAX_TOKENS)

    def take(self) -> bool:
        """Takes a token for a failed attempt. Returns whether the call may be retried."""
        with self._lock:
            self._tokens = max(self._tokens - 1, 0.0)
            return self._tokens > _MAX_TOKENS / 2


class Pause(NamedTuple):
    """The pause before the next attempt of a call.

    Attributes:
        seconds: the time that the call waits in any case.
        is_for_server: whether the call, after `seconds` have passed, also waits until a server is connected.
    """

    seconds: float
    is_for_server: bool


class Attempts:
    """The attempts to send one message or stream. At any time, only one thread or task uses this object.

    Attributes:
        deadline: the deadline of the call, which is the same for all calls of a batch.
    """

    def __init__(self, budget: RetryBudget, deadline: Deadline) -> None:
        """Starts without failures. Create this object before the first attempt, or directly after it has failed."""
        self.deadline = deadline
        self._budget = budget
        self._failures = 0
        self._losses = 0
        self._patience_seconds = PATIENCE_SECONDS
        # If the previous attempt failed because the server was overloaded, this attribute contains its error. The
        # stored error is a copy without a traceback, because a traceback refers to local variables and would keep the
        # caller's array in memory.
        self._rejection: LimitError | None = None

    def record_success(self) -> None:
        """Records that the call has a response."""
        self._budget.record_success()

    def record_progress(self) -> None:
        """Records that a server has accepted the stream.

        If the server is lost later, the call has as much time to wait for another server as a new call.
        """
        self._rejection = None
        self._patience_seconds = PATIENCE_SECONDS

    def plan_pause(self, error: TensorReshapeError) -> Pause | None:
        """Returns the pause before the next attempt. The result is None if the call has no next attempt."""
        if isinstance(error, CallTimeoutError):
            # If the result is None, the caller calls `choose_end`, which may prefer the error of the previous attempt.
            return None
        self._rejection = None
        if self._budget.is_closed:
            return None
        # An error with a RetryInfo is retried, even if this client does not know the reason of the error.
        if isinstance(error, LimitError) and error.retry_seconds is not None:
            self._rejection = copy(error)
            is_allowed = self._budget.take()
            pause = Pause(error.retry_seconds + self._draw_backoff(), is_for_server=False) if is_allowed else None
        elif isinstance(error, ServiceError) and _is_lost(error):
            pause = self._plan_lost()
        else:
            return None
        return None if pause is None or self.deadline.is_within(pause.seconds) else pause

    def choose_end(self, error: TensorReshapeError) -> TensorReshapeError:
        """Returns the error of a call whose last attempt ended with `error`.

        If the server was overloaded until the deadline, the overload error is returned instead of the timeout error.
        The overload error is more helpful. In addition, the result must not depend on whether the deadline passes
        during an attempt or during a pause.
        """
        rejection, self._rejection = self._rejection, None
        return rejection if rejection is not None and isinstance(error, CallTimeoutError) else error

    @contextmanager
    def wait_for_server(self) -> Iterator[float]:
        """Yields the number of seconds that the call may wait.

        The time that the `with` block takes is subtracted from the patience of the call, which is the total time that
        the call waits for servers.
        """
        start = time.monotonic()
        remaining = self.deadline.remaining_seconds
        patience = max(self._patience_seconds, LEAST_TIMEOUT_SECONDS)
        try:
            yield patience if remaining is None else min(patience, remaining)
        finally:
            self._patience_seconds -= time.monotonic() - start

    def _plan_lost(self) -> Pause | None:
        self._losses += 1
        if self._patience_seconds <= 0 or (self._losses > 1 and not self._budget.take()):
            return None
        pause = Pause(self._draw_backoff(), is_for_server=True)
        self._patience_seconds -= pause.seconds
        return pause

    def _draw_backoff(self) -> float:
        """Returns a random back-off whose mean doubles with each failure.

        Because the back-off is random, clients whose calls failed together do not retry at the same time.
        """
        limit = min(_INITIAL_BACKOFF_SECONDS * 2 ** min(self._failures, _MAX_DOUBLINGS), _MAX_BACKOFF_SECONDS)
        self._failures += 1
        return random.uniform(limit / 2, limit)  # noqa: S311 - not a secret


def _is_lost(error: ServiceError) -> bool:
    """Whether a call failed because its server was lost or could not be reached."""
    is_reset = error.code in _RESET and any(words in error.message for words in _RESET_WORDS)
    return is_reset or error.code in _LOST
