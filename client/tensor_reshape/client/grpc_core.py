"""Makes unary calls and streams directly on gRPC's core. This module uses private names of grpcio.

For each blocking call, the public API of grpcio creates a state, a lock and a set of pending operations. For each
stream, grpcio also starts two threads. Only callbacks and futures need these objects, but the objects take more than a
quarter of the processor time of a client that makes small calls. The class `CoreTransport` instead makes a unary call
with one batch of core operations and one event. One thread sends and receives all messages of a stream.

- `is_supported` makes two test calls before any client relies on a private name. If grpcio has changed its private
  names, or if the channel is intercepted, clients use `Transport`, which needs only public names. If grpcio has changed
  its private names, a timeout error does not include the connection state, because grpcio shows this state only through
  a private name or an extra thread.
- The calling thread of a unary call waits in gRPC's core, which checks for signals five times a second. If a signal
  handler raises an exception such as KeyboardInterrupt, `send` raises it and cancels the call. At two steps of a call,
  an exception of a signal handler has other effects. It has the same effects with grpcio's public API. If the exception
  arrives while the call is being started, the call continues on the server until its deadline. Starting a call takes
  longer with a large message. If the exception arrives while grpcio holds its channel lock, the lock stays locked, and
  no other thread can use the channel. A stream of the main thread therefore runs on another thread, unless it reports
  its progress to the caller.
- Closing a channel ends its running calls and rejects new calls.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, get_args

import grpc

from tensor_reshape.client.connections import build_error
from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.errors import ServiceError
from tensor_reshape.client.transports import StreamExchange, Transport, check_answer, run_aside
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import STREAM_RESHAPE

try:
    from grpc import _channel
    from grpc._cython import cygrpc  # type: ignore[attr-defined] # a compiled module without types
except ImportError:
    cygrpc = None

GrpcApi = Literal["auto", "public"]

_CODES = {code.value[0]: code for code in grpc.StatusCode}
# the test calls that check grpcio's internals may end with either of these statuses
_ENDS_OF_PROBE = {grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE}
_STATES = {state.value[0]: state for state in grpc.ChannelConnectivity}


def check_grpc_api(grpc_api: GrpcApi) -> GrpcApi:
    """Returns `grpc_api` if it is valid.

    Raises:
        ValueError: `grpc_api` is not "auto" or "public".
    """
    if grpc_api not in get_args(GrpcApi):
        raise ValueError(f"grpc_api is {grpc_api!r}; use one of {', '.join(get_args(GrpcApi))}")
    return grpc_api


def open_transport(channel: grpc.Channel, grpc_api: GrpcApi, interceptors: Sequence[Any] = ()) -> Transport:
    """Returns the object that makes the calls of a channel and closes it.

    Args:
        channel: the channel. After this call, no other code may use the channel.
        grpc_api: "auto" for calls on gRPC's core if possible; "public" for grpcio's public API.
        interceptors: gRPC interceptors. With interceptors, the public API is used.
    """
    # An instrumentation library may have wrapped the channel with an interceptor, which must see every call.
    is_plain = is_supported() and type(channel) is _channel.Channel
    core = channel._channel if is_plain else None  # type: ignore[attr-defined] # private
    find_state = partial(_find_state, core)
    if core is None or interceptors or grpc_api == "public":
        # Without interceptors, `intercept_channel` returns the channel itself.
        return Transport(grpc.intercept_channel(channel, *interceptors), find_state)
    return CoreTransport(channel, find_state, core)


def is_tls(credentials: grpc.ChannelCredentials) -> bool:
    """Whether `credentials` are plain TLS credentials.

    The result is False if the installed grpcio does not expose the kind of the credentials.
    """
    known = getattr(cygrpc, "SSLChannelCredentials", None)
    return known is not None and isinstance(getattr(credentials, "_credentials", None), known)


@cache
def is_supported() -> bool:
    """Whether the installed grpcio has the private names that this module uses, and whether test calls work.

    The test calls use an address without a server, and a deadline that has already passed. These test calls are made
    only once per process and take about a millisecond.
    """
    try:
        core = cygrpc.Channel(b"unix:/dev/null", (), None)
        try:
            status, _ = _call(core, "/", b"", 0, ())
            end = _try_stream(core)
            state = _find_state(core)
        finally:
            core.close(cygrpc.StatusCode.cancelled, "only a probe")
        return {_CODES.get(status.code()), end} <= _ENDS_OF_PROBE and state is not None and _rejects(core)
    except Exception:  # noqa: BLE001 - any exception means that grpcio has changed
        return False


class CoreTransport(Transport):
    """Makes the blocking calls of one channel directly on gRPC's core. Threads may share this object."""

    def __init__(
        self, channel: grpc.Channel, find_state: Callable[[], grpc.ChannelConnectivity | None], core: Any
    ) -> None:
        """Keeps the arguments. The argument `core` is grpcio's object for the channel in gRPC's core."""
        super().__init__(channel, find_state)
        # In contrast to grpcio's public channel, a channel of gRPC's core has no finalizer, so it may exist until
        # Python exits.
        self._core = core

    def send(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call and returns its response, with the same errors as `Transport.send`."""
        status, message = _call(self._core, path, request, timeout, metadata)
        if status.code():
            raise _build_error(status)
        return check_answer(message.message())

    def exchange(self, exchange: StreamExchange, timeout: float | None, metadata: CheckedMetadata) -> None:
        """Makes a stream call like `Transport.exchange`, but one thread sends and receives all messages."""
        if exchange.runs_foreign_code and threading.current_thread() is threading.main_thread():
            super().exchange(exchange, timeout, metadata)
        else:
            call = _StreamCall(exchange)
            run_aside(partial(call.run, self._core, STREAM_RESHAPE.path, timeout, metadata), call.cancel)


def _build_error(status: Any) -> TensorReshapeError:
    # An unknown status code becomes UNKNOWN, as in gRPC's core itself.
    code = _CODES.get(status.code(), grpc.StatusCode.UNKNOWN)
    return build_error(code, status.details(), status.trailing_metadata())


def _find_state(core: Any) -> grpc.ChannelConnectivity | None:
    """Returns the state of a channel. The result is None if the state is unknown or the channel is closed."""
    try:
        return None if core is None else _STATES.get(core.check_connectivity_state(False))
    except ValueError:
        return None


def _call(core: Any, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> tuple[Any, Any]:
    """Makes a call and returns the operations that received its status and its message.

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
    _start_call(core, path, timeout, metadata, ((operations, None),)).next_event()
    return status, message


def _start_call(
    core: Any, path: str, timeout: float | None, metadata: CheckedMetadata, batches: Sequence[tuple[Any, Any]]
) -> Any:
    """Starts a call with batches of operations. Each batch comes with the tag of the event that reports its end.

    Raises:
        ValueError: the channel is closed.
    """
    # The core of gRPC needs the deadline in seconds since the epoch.
    deadline = None if timeout is None else time.time() + timeout
    inherited = cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS
    # The three None arguments mean that the call has no host, no call credentials, and no registered method. In
    # measurements, a registered method made no difference. grpcio uses the metadata argument only in errors. The
    # metadata to send are passed in the first batch of operations.
    context = cygrpc.build_census_context()
    return core.segregated_call(inherited, path.encode(), None, deadline, metadata, None, batches, context, None)


_SENT, _HALF_CLOSED, _RECEIVED, _ENDED = range(4)  # the tags of the events of a stream


class _StreamCall:
    """A stream call. One thread, which is not the main thread, sends and receives all messages of the stream.

    The attribute `_due` is the number of started batches of operations whose events have not been taken. When the last
    event of a call is taken, grpcio frees the call, so no further event may be requested.
    """

    def __init__(self, exchange: StreamExchange) -> None:
        """Starts nothing."""
        self._exchange = exchange
        self._is_cancelled = False
        self._call: Any = None
        self._due = 0

    def run(self, core: Any, path: str, timeout: float | None, metadata: CheckedMetadata) -> None:
        """Makes the call. A failed call and a closed channel have the same errors as in `Transport.exchange`."""
        status = cygrpc.ReceiveStatusOnClientOperation(0)
        request = cygrpc.SendMessageOperation(next(self._exchange.requests), 0)
        first = cygrpc.SendInitialMetadataOperation(metadata or None, 0), request
        answer = cygrpc.ReceiveInitialMetadataOperation(0), cygrpc.ReceiveMessageOperation(0)
        batches = (first, _SENT), (answer, _RECEIVED), ((status,), _ENDED)
        self._call = _start_call(core, path, timeout, metadata, batches)
        self._due = len(batches)
        try:
            if not self._is_cancelled:
                self._handle_events()
        finally:
            if self._due:
                self.cancel()
            while self._due:
                self._take_event()
        if status.code():
            raise _build_error(status)

    def cancel(self) -> None:
        """Cancels the call. Any thread except the main thread may call this method, at any time."""
        self._is_cancelled = True  # if the call is not started yet, `run` reads this flag and cancels the call
        if self._call is not None:
            self._call.cancel(cygrpc.StatusCode.cancelled, "the caller has ended the call")

    def _handle_events(self) -> None:
        sends = True
        while self._due:
            event = self._take_event()
            if event.tag == _RECEIVED:
                message = event.batch_operations[-1].message()
                if message is not None:
                    # The next message may arrive while `receive` runs.
                    self._start(cygrpc.ReceiveMessageOperation(0), _RECEIVED)
                    self._exchange.receive(message)
            elif event.tag == _ENDED or not event.success:
                sends = False
            elif event.tag == _SENT and sends:
                request = next(self._exchange.requests, None)
                if request is None:
                    self._start(cygrpc.SendCloseFromClientOperation(0), _HALF_CLOSED)
                else:
                    self._start(cygrpc.SendMessageOperation(request, 0), _SENT)

    def _start(self, operation: Any, tag: int) -> None:
        if self._call.operate((operation,), tag):
            self._due += 1

    def _take_event(self) -> Any:
        event = self._call.next_event()
        self._due -= 1
        return event


def _try_stream(core: Any) -> grpc.StatusCode | None:
    """Makes a stream call whose deadline has already passed, and returns the status code of the call."""
    exchange = StreamExchange(iter([b""]), lambda _: None, runs_foreign_code=False)
    try:
        _StreamCall(exchange).run(core, "/", 0, ())
    except ServiceError as error:
        return error.code
    return None


def _rejects(core: Any) -> bool:
    """Whether a closed channel rejects a call with the expected error."""
    try:
        _call(core, "/", b"", 0, ())
    except ValueError:
        return True
    return False
