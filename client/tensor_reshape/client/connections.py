"""Converts the gRPC status of a call to an exception, and explains it.

If a call finds no server, it fails with the cause of the last connection attempt. If the timeout of a call passes
earlier, the call ends with "Deadline Exceeded", which names neither the timeout nor a cause. To a "Deadline Exceeded"
error, this module adds the timeout and the reason why no server is connected. This module also adds advice to errors of
stalled calls, and to errors about messages that are too large.
"""

import re
from collections.abc import Collection, Mapping
from copy import copy
from urllib.parse import unquote

from grpc import ChannelConnectivity, StatusCode

from tensor_reshape.client.errors import CallTimeoutError, InternalServerError, ServiceError, UnavailableError
from tensor_reshape.client.transfers import Pauses
from tensor_reshape.rules.errors import LimitError, Reason, TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.methods import OPERATION_METHODS, STREAM_RESHAPE
from tensor_reshape.wire.status import decode_brief_rejection, decode_rejection, find_request_id

_KINDS: dict[StatusCode, type[ServiceError]] = {
    StatusCode.UNAVAILABLE: UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: CallTimeoutError,
    StatusCode.INTERNAL: InternalServerError,
}


def build_error(
    code: StatusCode, details: str | None, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    """Returns the exception for the gRPC status of a call."""
    error = _choose_error(code, details or "", trailing_metadata)
    error.request_id = find_request_id(trailing_metadata)
    return error


def _choose_error(
    code: StatusCode, text: str, trailing_metadata: Collection[tuple[str, str | bytes]]
) -> TensorReshapeError:
    # Error details identify an error of the server, so they are examined before the status code. Transports and proxies
    # send the same status codes without details.
    rejection = decode_rejection(code.name, trailing_metadata) or decode_brief_rejection(code.name, text)
    if rejection is not None:
        return rejection
    if code is StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        # If a message is too large, gRPC's own code rejects it before the server can report its limit.
        return LimitError.of(Reason.MESSAGE_TOO_LARGE, text, "data")
    return _KINDS.get(code, ServiceError)(text, code)


_CAUSES = {
    "Connection refused": "no server at {target} (connection refused{address})",
    "No such file or directory": "no server at {target} (no such socket)",
    "DNS resolution failed": "no server at {target} (the host name was not found)",
    "errors resolving": "no server at {target} (the host name was not found)",
    "Network is unreachable": "no server at {target} (network is unreachable)",
    "No route to host": "no server at {target} (no route to host)",
    "WRONG_VERSION_NUMBER": (
        "the server at {target} does not use TLS: connect without TLS, or start the server with a certificate"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the certificate of {target} is not trusted: pass the certificate of its authority, and check its dates"
    ),
    "Hostname Verification Check failed": "the certificate of {target} is for other host names: connect to one of them",
    "missing selected ALPN property": "{target} does not offer HTTP/2 over TLS: connect to the gRPC port of the server",
    r"http1\.x server": "{target} is an HTTP port: connect to the gRPC port of the server",
    "Expected SETTINGS frame": (
        "{target} is not a gRPC port, and may be an HTTP port: connect to the gRPC port of the server"
    ),
    "Failed to create security handshaker": "the TLS files are invalid, or the key does not belong to the certificate",
    "all backends failing.*Secure read failed": (
        "{target} closed the connection after the TLS handshake: it may require a client certificate"
    ),
    "all backends failing.*: Socket closed": (
        "{target} closed the connection: it may require TLS, or a client certificate"
    ),
}
"""Regular expressions for gRPC's texts about failed connections, with an explanation for each.

A connection that is lost during a call has similar texts, but without "all backends failing".
"""

FAILED_ADDRESS = re.compile(r"\bipv[46]:(\S+): Failed to connect")
"""The address that accepted no connection in gRPC's texts, for example in "ipv6:%5B::1%5D:50051: Failed to connect"."""

TIME_IS_UP = "Deadline Exceeded"
"""gRPC's text if the timeout of a call has passed. Proxies have other texts for their timeouts."""

FAULT_SECONDS = 0.1
"""Seconds that the channel may take to report its connection error. Usually, it reports the error at once."""


def explain_loss(error: TensorReshapeError, target: str) -> TensorReshapeError:
    """Returns the error to raise for a failed call.

    If no server could be reached, the error names the target and the cause. gRPC's own text is kept as a note of the
    exception.
    """
    if not isinstance(error, UnavailableError):
        return error
    for sign, explanation in _CAUSES.items():
        if re.search(sign, error.message):
            text = explanation.format(target=target, address=_describe_address(error.message, target))
            explained = UnavailableError(text, error.code)
            explained.request_id = error.request_id
            explained.add_note(f"gRPC: {error.message}")
            return explained
    return error


def _describe_address(message: str, target: str) -> str:
    """Returns the failed address from gRPC's text, or an empty text if `target` already contains it.

    A host name such as localhost can have several addresses, and gRPC's text has only the error of one address.
    """
    found = FAILED_ADDRESS.search(message)
    address = unquote(found[1]) if found else ""
    return f" by {address}" if address and not target.endswith(address) else ""


def describe_fault(error: TensorReshapeError) -> str:
    """Returns the connection error of a call that did not wait for a server.

    The returned text is empty if the call failed for another reason.
    """
    is_lost = isinstance(error, ServiceError) and error.code is StatusCode.UNAVAILABLE
    return f"last connection error: {error}" if is_lost else ""


def describe_wait(state: ChannelConnectivity | None, target: str) -> str:
    """Returns the reason why a call on a channel in this state must wait.

    The returned text is empty if the channel is neither connecting nor idle.
    """
    if state not in (ChannelConnectivity.CONNECTING, ChannelConnectivity.IDLE):
        return ""
    return f"{target} is not connected: its name is not resolved yet, or no server completed a TCP or TLS handshake"


def explain_timeout(error: CallTimeoutError, seconds: float | None, fault: str = "") -> CallTimeoutError:
    """Returns a timeout error that names the timeout and the connection error. gRPC's own text is kept as a note.

    Args:
        error: the error of the call. If a proxy ended the call, the proxy's text is kept.
        seconds: the timeout of the call. None means that the call had no timeout.
        fault: the connection error, or an empty text.
    """
    if seconds is None or TIME_IS_UP not in error.message:
        seconds, text = None, error.message
    else:
        text = f"the call did not end within {seconds:g} seconds: pass a longer timeout"
    explained = CallTimeoutError(f"{text}; {fault}" if fault else text, error.code)
    explained.seconds, explained.fault, explained.request_id = seconds, fault, error.request_id
    explained.add_note(f"gRPC: {error.message}")
    return explained


# The SDK can send smaller messages only for the reshape methods. The advice fits both transfer modes that send one
# message. A call with "auto" needs a smaller inline_max_bytes, and a call with "inline" needs "auto" instead.
_UNARY_ADVICE = 'use transfer="stream", or transfer="auto" and a client whose inline_max_bytes is below this limit'
_STREAM_ADVICE = "use a client with smaller chunk_bytes"
_ADVICE = {**{method.path: _UNARY_ADVICE for method in OPERATION_METHODS.values()}, STREAM_RESHAPE.path: _STREAM_ADVICE}
# This expression matches the error text of gRPC's core for a message that is too large.
_SIZES = re.compile(r"larger than max \((\d+) vs\. (\d+)\)")


def advise(error: TensorReshapeError, path: str, pauses: Pauses | None = None) -> TensorReshapeError:
    """Returns the error to raise for a call to `path`, with advice if the SDK has any.

    Args:
        error: the error of the call.
        path: the method path.
        pauses: the pauses of a stream. None if the call was not a stream, or if the client cancelled the stream itself.
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

    In a unary call, gRPC's own threads send and receive the message, so only the network can be slow.
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
    """Returns an error that names the size of the message and the limit.

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
