"""What became of a channel's connections, for errors that do not tell it themselves.

A call that finds no server fails with what the last attempt to connect met: refused, not resolved, a handshake that
failed. One whose time is up first ends with "Deadline Exceeded", whatever it waited for. So the channel is asked then,
and only then: whoever is answered pays nothing.
"""

from grpc import ChannelConnectivity, StatusCode

from tensor_reshape.client.errors import CallTimeoutError, ServiceError
from tensor_reshape.rules.errors import TensorReshapeError

FAULT_SECONDS = 0.1
"""How long the channel may take to say what is wrong; it knows, so it answers at once."""


def has_failed(state: ChannelConnectivity | None) -> bool:
    """Whether the last attempt to connect failed: then a call that does not wait tells at once what it met."""
    return state is ChannelConnectivity.TRANSIENT_FAILURE


def describe_fault(error: TensorReshapeError) -> str:
    """Returns what a call met that does not wait for a server; empty where it met no failure to connect."""
    is_lost = isinstance(error, ServiceError) and error.code is StatusCode.UNAVAILABLE
    return f"last connection error: {error}" if is_lost else ""


def describe_wait(state: ChannelConnectivity | None, target: str) -> str:
    """Returns what a channel in this state still waits for; empty where it is connected, or nobody knows."""
    if state not in (ChannelConnectivity.CONNECTING, ChannelConnectivity.IDLE):
        return ""
    return f"{target} was not connected: its name is not resolved, or nothing answered there (TCP or TLS handshake)"


def add_fault(error: CallTimeoutError, fault: str) -> CallTimeoutError:
    """Returns the error of a call whose time was up, with what is wrong with the connection."""
    if not fault:
        return error
    told = CallTimeoutError(f"{error.message}; {fault}", error.code)
    told.request_id = error.request_id
    return told
