"""When a call is sent again, and what that may cost.

Every method is pure, so whatever became of the last attempt does not matter. Three things bound the attempts:

- The `Deadline` of the call, its waits included.
- The `RetryBudget` of the client, from which what is sent again draws, since it costs the server: with one exception,
  the first time that a call loses its server. All the calls that were under way are lost together when a server goes,
  so a budget for these would fail just the busy clients at every restart; and the attempts to connect again, which end
  when the server is back, cost it nothing. A call that is lost once more after its server came back does draw: that
  server is up.
- The patience of the call: how long it waits, all in all, for servers that are not there.

A server that is there and has too much to do says so with a RetryInfo: it is asked again after that time and a random
back-off on top. A server that was lost (UNAVAILABLE, or CANCELLED, as calls end that one receives while it stops, or
without a status, as those that a proxy gives up) is awaited, without sending anything, until one is there.

Nothing here sends or sleeps: `sync` and `aio` do, each in its own way, what is planned here.
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
"""How long a call waits, all in all, for servers that are lost or cannot be reached, within its deadline."""

_LOST = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
# What gRPC makes of a call that ends without a status of any server: a proxy that has lost the server of a call resets
# it, or just ends it. Both codes are given for other reasons, too, so the words of the core decide.
_RESET = (StatusCode.INTERNAL, StatusCode.UNKNOWN)
_RESET_WORDS = ("Stream removed", "RST_STREAM")
_INITIAL_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 0.1, 5.0
_MAX_DOUBLINGS = 6  # what leads to the maximum
_MAX_TOKENS, _TOKEN_RATIO = 100.0, 0.1  # the values that gRFC A6 takes for its examples


class RetryBudget:
    """The token bucket of gRPC's retry throttling (gRFC A6); one for each client, safe to use from any thread.

    A failure takes a token, an answered call gives a tenth of one back, and at half of the tokens or less nothing is
    sent again. So a server that stays full sees little more than the first attempt of each call.

    Attributes:
        is_closed: whether the client is: then nothing at all is sent again.
    """

    def __init__(self) -> None:
        """Starts full."""
        self.is_closed = False  # set once, by whoever closes the client; read without the lock
        self._tokens = _MAX_TOKENS
        self._lock = Lock()  # of the tokens

    def close(self) -> None:
        """Ends all retries: what is under way is not to outlive its client."""
        self.is_closed = True

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


class Pause(NamedTuple):
    """What comes before the next attempt.

    Attributes:
        seconds: how long to wait in any case.
        is_for_server: whether to wait for a server after that.
    """

    seconds: float
    is_for_server: bool


class Attempts:
    """The attempts of one message or one stream; used by one thread or task at a time.

    Attributes:
        deadline: of the call; that of a batch is shared by all its calls.
    """

    def __init__(self, budget: RetryBudget, deadline: Deadline) -> None:
        """Starts with the first."""
        self.deadline = deadline
        self._budget = budget  # shared with all calls of the client
        self._failures = 0  # of either kind: how far the back-off has grown
        self._losses = 0  # of the server: the first one is free
        self._patience_seconds = PATIENCE_SECONDS  # what is left of it
        # Of the attempt before. A copy, which has no traceback: its frames hold the caller's array, and this.
        self._refusal: LimitError | None = None

    def note_success(self) -> None:
        """Notes that the call was answered."""
        self._refusal = None
        self._budget.note_success()

    def note_progress(self) -> None:
        """Notes that a server has taken up the stream: from here it is a new one that would be awaited."""
        self._refusal = None
        self._patience_seconds = PATIENCE_SECONDS

    def plan_pause(self, error: TensorReshapeError) -> Pause | None:
        """Returns what to wait for before the next attempt; None where there is none: the call ends with `error`."""
        if isinstance(error, CallTimeoutError):
            return None  # what came before it may say more: see `choose_end`
        self._refusal = None
        if self._budget.is_closed:
            return None
        # The server's word decides, which it gives for the reasons that are retryable: also for one to come.
        if isinstance(error, LimitError) and error.retry_seconds is not None:
            self._refusal = copy(error)
            pause = self._plan_busy(error.retry_seconds)
        elif isinstance(error, ServiceError) and _is_lost(error):
            pause = self._plan_lost()
        else:
            return None
        return None if pause is None or self.deadline.is_within(pause.seconds) else pause

    def choose_end(self, error: TensorReshapeError) -> TensorReshapeError:
        """Returns what the call ends with when `error` ended its last attempt.

        Where the server was full until the time ran out, that says more than that it ran out, and must not depend on
        whether it did so during an attempt or between two.
        """
        refusal, self._refusal = self._refusal, None
        return refusal if refusal is not None and isinstance(error, CallTimeoutError) else error

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
        """Returns a random time around one that doubles: many callers must not come back together."""
        limit = min(_INITIAL_BACKOFF_SECONDS * 2 ** min(self._failures, _MAX_DOUBLINGS), _MAX_BACKOFF_SECONDS)
        self._failures += 1
        return random.uniform(limit / 2, limit)  # noqa: S311 - no secret


def _is_lost(error: ServiceError) -> bool:
    """Whether a call has lost its server, rather than been answered by it."""
    is_reset = error.code in _RESET and any(words in error.message for words in _RESET_WORDS)
    return is_reset or error.code in _LOST
