"""What passes between the supervisor and a worker, through two pipes.

- To the worker, on its standard input: its pickled `Order`, then HURRY for each signal after the first one to stop. The
  end of it says that the supervisor is gone.
- From the worker, on a pipe of its own: at first, one OBSTACLE if the public parts of grpcio serve; BEAT as long as it
  serves; LEAVING once when it begins to stop. Or else one REFUSAL with its reason, and nothing beside it.
- Each message is a byte, or fits into what a pipe takes at once: none is ever cut in two.
"""

from dataclasses import dataclass

from tensor_reshape.server.config import Config

BEAT = b"."
LEAVING = b"-"
REFUSAL = b"!"
"""Why the worker cannot be started follows, in UTF-8, up to the end."""

OBSTACLE = b"?"
"""Why the public parts of grpcio serve follows, in UTF-8, up to a line feed."""

HURRY = b"h"
"""The calls under way are to end now."""

MAX_MESSAGE_BYTES = 4096
"""Of a message with a reason: what a pipe of Linux takes at once (PIPE_BUF)."""

STOP_MARGIN_SECONDS = 3.0
"""How long a worker may take to stop, besides draining and the grace: clients are asked to leave for a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker is to do.

    Attributes:
        number: what the logs call the worker; the first is 1.
        config: what to serve, on addresses that the supervisor holds.
        counters: the descriptor of the memory that it counts in, which the worker inherits; None: it does not count.
    """

    number: int
    config: Config
    counters: int | None = None

    @property
    def stop_seconds(self) -> float:
        """How long a worker may take from the order to stop to its end."""
        return self.config.drain_seconds + self.config.shutdown_grace_seconds + STOP_MARGIN_SECONDS
