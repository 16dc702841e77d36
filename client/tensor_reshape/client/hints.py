"""What to do about a refusal, where that depends on the server that gave it.

Laws:

- Nothing is asked before a call has failed, and nothing twice, whatever was answered: good calls cost nothing, and all
  failures of a client one small call.
- A hint is true: it names a limit that the server told, and that the request is above.
"""

from copy import copy

from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.methods import OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.servers import ServerInfo, decode_server_info

# What is too large, and what to do: of other methods no message can be made smaller.
_UNARY = ("the request", 'use transfer="stream", or a client with a smaller inline_max_bytes')
_STREAM = ("a message of the stream", "make the client with smaller chunk_bytes")
_ADVICE = {**{method.path: _UNARY for method in OPERATION_METHODS.values()}, STREAM_RESHAPE.path: _STREAM}

NOTHING_TOLD = decode_server_info(b"")
"""What is known of a server that was asked, and did not say."""

HINT_SECONDS = 1.0
"""The longest that an error waits for what explains it."""


def calls_for_hint(error: TensorReshapeError, path: str) -> bool:
    """Returns whether what the server says of itself explains an error: what the transport refuses, it does not."""
    return isinstance(error, LimitError) and error.reason is Reason.MESSAGE_TOO_LARGE and path in _ADVICE


def hint_size(error: TensorReshapeError, path: str, size: int, info: ServerInfo | None) -> TensorReshapeError:
    """Returns the error of a call; of one that is too large, with what the server takes and what to do.

    Args:
        error: any.
        path: of the method.
        size: of the largest message that was sent, in bytes.
        info: what the server says of itself, if anything.
    """
    limit = 0 if info is None else info.limits.max_message_bytes
    # Within the limit it was refused on the way, by another's.
    if not (isinstance(error, LimitError) and calls_for_hint(error, path) and 0 < limit < size):
        return error
    subject, advice = _ADVICE[path]
    hinted = copy(error)
    hinted.message = f"{subject} takes {round_size(size)}, above the server's {round_size(limit)}: {advice}"
    hinted.args = (hinted.message,)
    hinted.metadata = {"size": str(size), "limit": str(limit)}
    return hinted
