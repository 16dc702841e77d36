"""Heartbeats of a worker, which show that the thread that receives calls makes turns.

That thread makes a turn at least every second, independent of clients, so no client can stop the heartbeats of a worker
that works. The fallback server does not count its turns. With it, a heartbeat only shows that the process runs.
"""

from collections.abc import Callable

BEAT_SECONDS = 0.5
"""Shortest interval of heartbeats."""


class Heartbeat:
    """Sends heartbeats while the thread makes turns."""

    def __init__(self, send: Callable[[], None]) -> None:
        """Starts with the first `look`. `send` sends one heartbeat and must not block."""
        self._send = send
        self._turns: int | None = None
        self._not_before = 0.0

    def look(self, now: float, turns: int | None) -> None:
        """Sends a heartbeat if one is due. Call it many times a second, on one thread.

        Args:
            now: the time of `time.monotonic`.
            turns: see `transports.Server`.
        """
        if now >= self._not_before and (turns is None or turns != self._turns):
            self._turns, self._not_before = turns, now + BEAT_SECONDS
            self._send()
