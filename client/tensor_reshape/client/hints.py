"""Adds advice to errors about messages that are too large."""

import re
from copy import copy

from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.methods import OPERATION_METHODS, STREAM_RESHAPE

# The SDK can send smaller messages only for the reshape methods.
# The advice fits both modes that send one message. With "auto", a smaller inline_max_bytes helps. With "inline", "auto"
# helps.
_UNARY_ADVICE = 'use transfer="stream", or transfer="auto" and a client whose inline_max_bytes is below this limit'
_STREAM_ADVICE = "use a client with smaller chunk_bytes"
_ADVICE = {**{method.path: _UNARY_ADVICE for method in OPERATION_METHODS.values()}, STREAM_RESHAPE.path: _STREAM_ADVICE}
# If a message is too large, the error text of gRPC's core matches this expression.
_SIZES = re.compile(r"larger than max \((\d+) vs\. (\d+)\)")


def advise(error: TensorReshapeError, path: str) -> TensorReshapeError:
    """Returns the error to raise for a call to `path`. If a message was too large, the returned error contains advice.

    gRPC's error has no details, so the sizes are read from the text of the error. If a proxy reports the error with
    another text, the error is returned unchanged.
    """
    if not isinstance(error, LimitError) or error.reason is not Reason.MESSAGE_TOO_LARGE:
        return error
    advice, sizes = _ADVICE.get(path), _SIZES.search(error.message)
    if advice is None or sizes is None:
        return error
    size, limit = map(int, sizes.groups())
    texts = round_size(size), round_size(limit)
    # if both sizes were rounded to the same text, the message shows the exact numbers of bytes
    if texts[0] == texts[1]:
        texts = f"{size} bytes", f"{limit} bytes"
    advised = copy(error)
    advised.message = f"the message has {texts[0]}, but its receiver allows {texts[1]}"
    advised.advice = f": {advice}"
    advised.metadata = {"size": str(size), "limit": str(limit)}
    return advised
