"""Explains the errors of calls that found no server, or whose timeout has passed.

If a call finds no server, it fails with the cause of the last connection attempt. If the timeout of a call passes
earlier, the call ends with "Deadline Exceeded", which names neither the timeout nor a cause. Only in the second case,
this module adds the timeout and the state of the channel to the error.
"""

import re
from urllib.parse import unquote

from grpc import ChannelConnectivity, StatusCode

from tensor_reshape.client.errors import CallTimeoutError, ServiceError, UnavailableError
from tensor_reshape.rules.errors import TensorReshapeError

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


def has_failed(state: ChannelConnectivity | None) -> bool:
    """Whether the last connection attempt of the channel failed.

    After a failed attempt, a call that does not wait for a server reports the cause at once.
    """
    return state is ChannelConnectivity.TRANSIENT_FAILURE


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
    """Returns the address in gRPC's text if `target` is a host name.

    A host name such as localhost can have several addresses, and gRPC's text has only the error of one address.
    """
    found = FAILED_ADDRESS.search(message)
    address = unquote(found[1]) if found else ""
    return f" by {address}" if address and not target.endswith(address) else ""


def describe_fault(error: TensorReshapeError) -> str:
    """Returns the connection error of a call that did not wait for a server.

    The text is empty if there was no connection error.
    """
    is_lost = isinstance(error, ServiceError) and error.code is StatusCode.UNAVAILABLE
    return f"last connection error: {error}" if is_lost else ""


def describe_wait(state: ChannelConnectivity | None, target: str) -> str:
    """Returns the reason why a call on a channel in this state has to wait.

    The text is empty if the channel is connected or its state is unknown.
    """
    if state not in (ChannelConnectivity.CONNECTING, ChannelConnectivity.IDLE):
        return ""
    return f"{target} is not connected: its name is not resolved yet, or no server completed a TCP or TLS handshake"


def explain_timeout(error: CallTimeoutError, seconds: float | None, fault: str = "") -> CallTimeoutError:
    """Returns a timeout error that names the timeout and the connection error. gRPC's own text is kept as a note.

    Args:
        error: the error of the call. If a proxy ended the call, its text is kept.
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
