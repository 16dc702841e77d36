"""Adds the server's limits to errors about messages that are too large.

Invariants:

- The limits are requested only after a call has failed, and only once. So all failures of a client together cost one
  small call, and successful calls cost nothing.
- A hint names only a limit that the server reported and that the request exceeds.
"""

from copy import copy

from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.methods import OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.servers import ServerInfo, decode_server_info

# The subject and the advice for a message that is too large. Only messages of these methods can be made smaller.
_UNARY = ("the request", 'use transfer="stream", or a client with a smaller inline_max_bytes')
_STREAM = ("a message of the stream", "create the client with smaller chunk_bytes")
_ADVICE = {**{method.path: _UNARY for method in OPERATION_METHODS.values()}, STREAM_RESHAPE.path: _STREAM}

NO_SERVER_INFO = decode_server_info(b"")
"""The information about a server that did not report its limits."""

HINT_SECONDS = 1.0
"""Seconds that an error may wait for the limits."""


def calls_for_hint(error: TensorReshapeError, path: str) -> bool:
    """Whether the server's limits can explain an error. gRPC's own error does not contain them."""
    return isinstance(error, LimitError) and error.reason is Reason.MESSAGE_TOO_LARGE and path in _ADVICE


def hint_size(error: TensorReshapeError, path: str, size: int, info: ServerInfo | None) -> TensorReshapeError:
    """Returns the error of a call. If a message was too large, the error names the server's limit and advice.

    Args:
        error: any error.
        path: the method path.
        size: the size of the largest message that was sent, in bytes.
        info: the server's limits.
    """
    limit = 0 if info is None else info.limits.max_message_bytes
    # If the message is within the server's limit, a proxy with a lower limit has rejected it.
    if not (isinstance(error, LimitError) and calls_for_hint(error, path) and 0 < limit < size):
        return error
    subject, advice = _ADVICE[path]
    hinted = copy(error)
    hinted.message = f"{subject} takes {round_size(size)}, but the server's limit is {round_size(limit)}: {advice}"
    hinted.args = (hinted.message,)
    hinted.metadata = {"size": str(size), "limit": str(limit)}
    return hinted
