"""The private names of grpcio on which the client relies: no other module of the client uses any.

grpcio's public blocking call keeps a state, a lock and a set of pending operations for each call, which only callbacks
and futures need. They take more than a quarter of a client's processor time for a small call. `CoreTransport` makes a
unary call as gRPC's core does instead: one batch of operations, and one event when all of them are done.

- `is_supported` makes one call before any client relies on a private name. If grpcio has changed, or something
  intercepts the channel, clients use `Transport`, which needs public names only. If grpcio has changed, errors of calls
  whose time is up do not say either that no server was connected: without a thread of its own grpcio shows the state
  of a channel by a private name only.
- The calling thread waits in the core, which looks for signals five times a second. An exception of a signal handler,
  such as KeyboardInterrupt, leaves `send` and cancels the call. Two windows of some microseconds remain. A call that
  is interrupted as it begins runs on at the server until its deadline. A call that is interrupted as grpcio releases
  its lock of the channel leaves the lock held: no other thread can use the channel then.
- Closing a channel ends its calls under way and refuses new calls.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal

import grpc

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.statuses import build_error
from tensor_reshape.client.transports import Transport, check_answer

try:
    from grpc import _channel
    from grpc._cython import cygrpc  # type: ignore[attr-defined] # compiled, without types
except ImportError:
    cygrpc = None

GrpcApi = Literal["auto", "public"]

_GRPC_APIS = ("auto", "public")
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_ENDS_OF_PROBE = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE)  # whichever is found first
_STATES = {state.value[0]: state for state in grpc.ChannelConnectivity}


def check_grpc_api(grpc_api: GrpcApi) -> GrpcApi:
    """Returns `grpc_api`.

    Raises:
        ValueError: it is not one of the values.
    """
    if grpc_api not in _GRPC_APIS:
        message = f"grpc_api is {grpc_api!r}; it is one of {', '.join(_GRPC_APIS)}"
        raise ValueError(message)
    return grpc_api


def open_transport(channel: grpc.Channel, grpc_api: GrpcApi, interceptors: Sequence[Any] = ()) -> Transport:
    """Returns the object that makes the calls of a channel, and closes it.

    Args:
        channel: from now on nothing else may refer to it.
        grpc_api: "auto" for calls on gRPC's core if that is possible; "public" for grpcio's public calls.
        interceptors: see every call; then all are grpcio's public calls.
    """
    core = channel._channel if is_supported() and _is_plain(channel) else None  # type: ignore[attr-defined] # not public
    find_state = partial(_find_state, core)
    if core is None or interceptors or grpc_api == "public":
        # Without interceptors this is the channel itself.
        return Transport(grpc.intercept_channel(channel, *interceptors), find_state)
    return CoreTransport(channel, find_state, core)


def is_tls(credentials: grpc.ChannelCredentials) -> bool:
    """Whether these are plain TLS credentials; False if this grpcio does not show it."""
    known = getattr(cygrpc, "SSLChannelCredentials", None)
    return known is not None and isinstance(getattr(credentials, "_credentials", None), known)


@cache
def is_supported() -> bool:
    """Whether the installed grpcio has the private names of this module and they work.

    This makes a call to an address where no server can be, with a deadline that has passed. It takes about a
    millisecond, once.
    """
    try:
        core = cygrpc.Channel(b"unix:/dev/null", (), None)
        try:
            status, _ = _call(core, "/", b"", 0, ())
            state = _find_state(core)
        finally:
            core.close(cygrpc.StatusCode.cancelled, "only a probe")
        return _CODES.get(status.code()) in _ENDS_OF_PROBE and state is not None and _refuses(core)
    except Exception:  # noqa: BLE001 - whatever it is: this grpcio is another one than this module was written for
        return False


class CoreTransport(Transport):
    """The calls of one channel, unary ones on gRPC's core; safe to share between threads."""

    def __init__(
        self, channel: grpc.Channel, find_state: Callable[[], grpc.ChannelConnectivity | None], core: Any
    ) -> None:
        """Keeps all of them; `core` is grpcio's object for the channel's part of gRPC's core."""
        super().__init__(channel, find_state)
        self._core = core  # unlike the channel it has no finalizer, and may be kept until the interpreter ends

    def send(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call and returns its answer, as `Transport.send` does, with the same errors."""
        status, message = _call(self._core, path, request, timeout, metadata)
        if code := status.code():
            details, trailing_metadata = status.details(), status.trailing_metadata()
            # To the core, too, a code that is not one of gRPC's is UNKNOWN.
            raise build_error(_CODES.get(code, grpc.StatusCode.UNKNOWN), details, trailing_metadata)
        return check_answer(message.message())


def _is_plain(channel: grpc.Channel) -> bool:
    """Whether a channel is grpcio's own. An interceptor, for example of instrumentation, has to see every call."""
    return type(channel) is _channel.Channel


def _find_state(core: Any) -> grpc.ChannelConnectivity | None:
    """Returns the state of a channel; None if there is no core, or it is closed."""
    try:
        return None if core is None else _STATES.get(core.check_connectivity_state(False))
    except ValueError:
        return None


def _call(core: Any, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> tuple[Any, Any]:
    """Makes a call and returns the operations that have received its status and its message.

    Raises:
        ValueError: the channel is closed.
    """
    message, status = cygrpc.ReceiveMessageOperation(0), cygrpc.ReceiveStatusOnClientOperation(0)
    operations = (
        cygrpc.SendInitialMetadataOperation(metadata or None, 0),
        cygrpc.SendMessageOperation(request, 0),
        cygrpc.SendCloseFromClientOperation(0),
        cygrpc.ReceiveInitialMetadataOperation(0),
        message,
        status,
    )
    deadline = None if timeout is None else time.time() + timeout  # as the core counts them: from the epoch
    inherited = cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS
    # No host, no credentials of the call's own, and no registered method, which was tried without effect. grpcio names
    # the metadata in its errors only: those that are sent are in the operations.
    context, batches = cygrpc.build_census_context(), ((operations, None),)
    core.segregated_call(inherited, path.encode(), None, deadline, metadata, None, batches, context, None).next_event()
    return status, message


def _refuses(core: Any) -> bool:
    """Whether a closed channel refuses a call with the error that callers of the client know."""
    try:
        _call(core, "/", b"", 0, ())
    except ValueError:
        return True
    return False
