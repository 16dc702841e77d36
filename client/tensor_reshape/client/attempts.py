"""When a call is sent again: every method is pure, so whatever became of the last attempt does not matter."""

import random
import time

from grpc import StatusCode

from tensor_reshape.client.errors import ServiceError
from tensor_reshape.client.options import Endpoint
from tensor_reshape.core.errors import LimitError, TensorReshapeError
from tensor_reshape.wire.status import RETRY_SECONDS, is_retryable

_LOST = (StatusCode.UNAVAILABLE, StatusCode.CANCELLED)
_PAUSES_SECONDS = (0.1, 0.3, 0.9, 2.7)


class Attempts:
    """The attempts of one call, within its deadline.

    A server that has too much to do (SERVER_BUSY, STALLED) is asked again until the deadline. A stream that is lost
    after the server has accepted it begins anew, a few times; before that, and for other calls, the channel does so.
    """

    def __init__(self, endpoint: Endpoint, timeout: float | None) -> None:
        """Starts the clock; `timeout` None: the client's."""
        seconds = endpoint.choose_timeout(timeout)
        self._endpoint = endpoint
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._pauses: list[float] = []
        self._restarts = False

    def allow_restarts(self) -> None:
        """Notes that from now on the channel does not send the call again by itself: the server has answered."""
        if not self._restarts:
            self._restarts, self._pauses = True, list(_PAUSES_SECONDS)

    @property
    def remaining_seconds(self) -> float | None:
        """What is left until the deadline, as grpc takes it."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 1e-3)

    @property
    def are_over(self) -> bool:
        """Whether the deadline has passed."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def choose_pause(self, error: TensorReshapeError) -> float | None:
        """Returns the seconds to wait before the next attempt; None where there is no other."""
        if isinstance(error, LimitError) and is_retryable(error):
            pause = RETRY_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - so that not all come back at once
        elif isinstance(error, ServiceError) and error.code in _LOST and self._pauses:
            pause = self._pauses.pop(0)
        else:
            return None
        if self._endpoint.closed:
            return None
        late = self._deadline is not None and time.monotonic() + pause >= self._deadline
        return None if late else pause
