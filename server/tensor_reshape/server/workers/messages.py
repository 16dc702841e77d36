"""Messages between the supervisor and a worker, through two pipes.

- The supervisor writes to the worker's standard input. It writes the pickled `Order`, and later HURRY for each stop
  signal after the first one. The end of the input means that the supervisor has ended.
- The worker writes to its own pipe. It writes OBSTACLE once if the fallback server is used, BEAT as long as it serves,
  and LEAVING when it starts to stop. If it cannot serve, it writes only REJECTION with the reason.
- Each message is one byte or fits into one atomic write, so messages are never split.
"""

from dataclasses import dataclass

from tensor_reshape.server.config import Config

BEAT = b"."
LEAVING = b"-"
REJECTION = b"!"
"""Followed by the reason why the worker cannot start, in UTF-8, until the end."""

OBSTACLE = b"?"
"""Followed by the reason for the fallback server, in UTF-8, until a line feed."""

HURRY = b"h"
"""Makes a worker that stops end its running calls at once."""

MAX_MESSAGE_BYTES = 4096
"""Limit of a message with a reason: the size of an atomic write to a pipe on Linux (PIPE_BUF)."""

STOP_MARGIN_SECONDS = 3.0
"""Time to stop in addition to the drain and grace periods. It includes a second for clients to disconnect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Instructions for a worker.

    Attributes:
        number: the number of the worker in logs and metrics, from 1.
        config: the configuration, with addresses that the supervisor holds.
        counters: the inherited descriptor of the memory for metrics; None: the worker does not count.
    """

    number: int
    config: Config
    counters: int | None = None

    @property
    def stop_seconds(self) -> float:
        """Time that the worker has to stop."""
        return self.config.drain_seconds + self.config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
