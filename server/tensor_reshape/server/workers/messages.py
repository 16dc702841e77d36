"""Messages between the supervisor and a worker, which use two pipes.

- The supervisor writes its messages to the standard input of the worker. The first message is the pickled `Order`. For
  each stop signal after the first stop signal, the supervisor writes HURRY. If the standard input of a worker ends, the
  supervisor has ended.
- A worker writes its messages to a separate pipe. It writes BEAT periodically while it serves, and LEAVING when it
  starts to stop. A worker that cannot serve writes only a REJECTION message with the reason.
- Each message of a worker fits into one atomic write, so the pipe never splits a message.
"""

from dataclasses import dataclass

from tensor_reshape.server.config import Config

BEAT = b"."
LEAVING = b"-"
REJECTION = b"!"
"""The first byte of a message with the reason why the worker cannot start, in UTF-8.

The message ends at the end of the data in the pipe.
"""

HURRY = b"h"
"""The message that makes a stopping worker end its running calls at once."""

MAX_MESSAGE_BYTES = 4096
"""Maximum size of a REJECTION message in bytes. Linux writes data of this size to a pipe atomically (PIPE_BUF)."""

STOP_MARGIN_SECONDS = 3.0
"""Seconds that a worker may take to stop after the drain and grace periods. In one of them, clients disconnect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Instructions for a worker.

    Attributes:
        number: the number of the worker in logs and metrics, from 1. The workers for HTTP come last.
        config: the configuration of the worker, with addresses that the supervisor has bound.
        counters: the inherited descriptor of the memory for metrics, or None without metrics.
    """

    number: int
    config: Config
    counters: int | None = None

    @property
    def serves_http(self) -> bool:
        """Whether the worker serves HTTP instead of gRPC."""
        return self.config.http_listen is not None

    @property
    def stop_seconds(self) -> float:
        """Seconds that the worker may take to stop."""
        return self.config.drain_seconds + self.config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
