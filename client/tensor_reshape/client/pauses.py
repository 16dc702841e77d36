"""Measures whether this process was slow during a stream, or the network.

The server aborts a stream without progress (STALLED), but it does not know whether the code of the client has paused
the stream.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

LONG_SECONDS = 1.0
"""A pause of this length can be the reason for a cancelled stream, because few servers have a shorter stall timeout."""


class Pauses:
    """The longest pauses of one stream.

    Attributes:
        own_seconds: the longest time for which this process neither read nor sent, for example in `progress`.
    """

    def __init__(self) -> None:
        """Begins to wait for the first response."""
        self.own_seconds = 0.0
        self._has_response = False
        self._longest_wait = 0.0
        self._waits_since = time.monotonic()

    def record(self, seconds: float) -> None:
        """Records a pause of this process. Any thread may call this method."""
        self.own_seconds = max(self.own_seconds, seconds)

    @contextmanager
    def work(self) -> Iterator[None]:
        """Measures the work on a response. At other times, the stream waits for the next response."""
        begin = time.monotonic()
        # The first response is not counted, because the client must connect and the server may let the call wait.
        if self._has_response:
            self._longest_wait = max(self._longest_wait, begin - self._waits_since)
        self._has_response = True
        try:
            yield
        finally:
            self._waits_since = time.monotonic()
            self.record(self._waits_since - begin)

    @property
    def are_own(self) -> bool:
        """Whether this process caused the longest pause of the stream until now.

        A pause of this process may be a part of a wait, for example while the event loop is blocked.
        """
        wait = max(self._longest_wait, time.monotonic() - self._waits_since)
        return self.own_seconds >= wait / 2

    @property
    def are_long(self) -> bool:
        """Whether this process caused the longest pause, and it lasted for at least `LONG_SECONDS`."""
        return self.own_seconds >= LONG_SECONDS and self.are_own
