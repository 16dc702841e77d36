"""How a worker knows that it serves: the thread that receives calls makes turns.

It makes one at least every second, whatever callers do, so no client can silence a worker that answers. The fallback
server does not count its turns. With it, a heartbeat only says that the process runs.
"""

from collections.abc import Callable

BEAT_SECONDS = 0.5
"""How often a heartbeat is sent at most."""


class Heartbeat:
    """Sends heartbeats as long as turns are made."""

    def __init__(self, tell: Callable[[], None]) -> None:
        """Starts with the first `look`; `tell` sends one, and must not block."""
        self._tell = tell
        self._turns: int | None = None
        self._not_before = 0.0

    def look(self, now: float, turns: int | None) -> None:
        """Sends a heartbeat if one is due; to be called many times a second, on one thread.

        Args:
            now: by `time.monotonic`.
            turns: see `transports.Server`.
        """
        if now >= self._not_before and (turns is None or turns != self._turns):
            self._turns, self._not_before = turns, now + BEAT_SECONDS
            self._tell()
