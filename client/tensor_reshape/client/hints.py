"""What to do about a refusal, where that depends on the server that gave it.

Laws:

- Nothing is asked before a call has failed, and nothing twice: good calls cost nothing, and failures one small call.
- A hint is true: it names a limit that the server told, and that the request is above.
"""

from copy import copy

from tensor_reshape.client.requests import Call
from tensor_reshape.client.responses import Answer
from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.methods import OPERATION_METHODS
from tensor_reshape.wire.servers import ServerInfo

_OPERATIONS = frozenset(method.path for method in OPERATION_METHODS.values())

HINT_SECONDS = 1.0
"""The longest that an error waits for what explains it."""


def calls_for_hint(error: TensorReshapeError, call: Call[Answer]) -> bool:
    """Returns whether what the server says of itself explains an error: what the transport refuses, it does not."""
    is_too_large = isinstance(error, LimitError) and error.reason is Reason.MESSAGE_TOO_LARGE
    return is_too_large and call.method in _OPERATIONS  # others cannot travel as a stream


def hint_stream(error: TensorReshapeError, call: Call[Answer], info: ServerInfo | None) -> TensorReshapeError:
    """Returns the error of a call; of one that is too large, with what the server takes and what to do.

    Args:
        error: any.
        call: the one that it is of.
        info: what the server says of itself; None: it says nothing, and neither is anything hinted.
    """
    size, limit = len(call.request), 0 if info is None else info.limits.max_message_bytes
    # Within the limit it was refused on the way, by another's.
    if not (isinstance(error, LimitError) and calls_for_hint(error, call) and 0 < limit < size):
        return error
    hinted = copy(error)
    sizes = f"the request takes {round_size(size)}, above the server's {round_size(limit)}"
    hinted.message = f'{sizes}: use transfer="stream"'
    hinted.args = (hinted.message,)
    hinted.metadata = {"size": str(size), "limit": str(limit)}
    return hinted
