"""Adds advice to errors about messages that are too large, and to errors of stalled calls."""

import re
from collections.abc import Mapping
from copy import copy

from grpc import StatusCode

from tensor_reshape.client.errors import ServiceError
from tensor_reshape.client.pauses import Pauses
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


def advise(error: TensorReshapeError, path: str, pauses: Pauses | None = None) -> TensorReshapeError:
    """Returns the error to raise for a call to `path`, which contains advice if the SDK has some.

    Args:
        error: the error of the call.
        path: the method path.
        pauses: the pauses of a stream that the client did not cancel itself, or None.
    """
    if isinstance(error, LimitError) and error.reason is Reason.MESSAGE_TOO_LARGE:
        return _advise_large(error, path)
    if isinstance(error, LimitError) and error.reason is Reason.STALLED:
        return _advise_stalled(error, pauses)
    # Some proxies cancel a stream whose server has aborted it, and drop the status.
    is_cancelled = isinstance(error, ServiceError) and error.code is StatusCode.CANCELLED
    if is_cancelled and pauses is not None and pauses.are_long:
        stalled = LimitError.of(Reason.STALLED, "the call was cancelled without a status (--stall-timeout-seconds)")
        stalled.request_id = error.request_id
        return _advise_stalled(stalled, pauses)
    return error


def _advise_stalled(error: LimitError, pauses: Pauses | None) -> LimitError:
    """Returns an error that says whether this process or the network was slow.

    gRPC's own threads send and receive the message of a unary call, so only the network can be slow there.
    """
    if pauses is not None and pauses.are_own:
        seconds = f"{pauses.own_seconds:.1f}"
        cause, advice = f"this process paused it for {seconds} seconds", "make such pauses shorter"
        values = {"slow_side": "caller", "paused_seconds": seconds}
    else:
        cause, advice = "the network was too slow", "use a faster network"
        values = {"slow_side": "network"}
    advice = f"{advice}, or raise this option of the server"
    return _extend(error, f"{error.message}, because {cause}", advice, values)


def _advise_large(error: LimitError, path: str) -> LimitError:
    """Returns an error with both sizes.

    gRPC's error has no details, so the sizes are read from the text of the error. If a proxy reports the error with
    another text, the error is returned unchanged.
    """
    advice, sizes = _ADVICE.get(path), _SIZES.search(error.message)
    if advice is None or sizes is None:
        return error
    size, limit = map(int, sizes.groups())
    texts = round_size(size), round_size(limit)
    # if both sizes were rounded to the same text, the message shows the exact numbers of bytes
    if texts[0] == texts[1]:
        texts = f"{size} bytes", f"{limit} bytes"
    message = f"the message has {texts[0]}, but its receiver allows {texts[1]}"
    return _extend(error, message, advice, {"size": str(size), "limit": str(limit)})


def _extend(error: LimitError, message: str, advice: str, values: Mapping[str, str]) -> LimitError:
    extended = copy(error)
    extended.message, extended.advice = message, f": {advice}"
    extended.metadata = {**error.metadata, **values}
    return extended
