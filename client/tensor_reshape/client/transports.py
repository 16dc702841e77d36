"""Makes the calls of a channel through grpcio's public API, and raises the errors of this package.

Invariant: when a process exits, the main thread runs no finalizer of a grpcio object. These finalizers take locks. The
threads of grpcio are daemon threads, which Python may stop at any point during the exit. If Python stops a thread that
holds a lock, the lock is never released, so a finalizer that waits for the lock would hang the process.

- At exit, `_close_all` closes all open channels while all threads still run, and `close` drops the channel object.
- The client drops a call object of the public API when the call is over. Neither the context of an error nor the frames
  of its traceback refer to a call object. An error and its traceback often form a reference cycle, which the garbage
  collector may free on the main thread.
- No code subscribes to the state of a channel, because grpcio would poll the state on a thread that ends up to 0.2 s
  too late.
"""

import atexit
import os
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, NoReturn, TypeVar
from weakref import WeakSet

import grpc

from tensor_reshape.client.connections import build_error
from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.errors import ResponseError, ServiceError
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import STREAM_RESHAPE

_Result = TypeVar("_Result")
# If a signal arrives just before the main thread begins to wait, it is handled after this time, as in gRPC's core.
_SIGNAL_SECONDS = 0.2
_CANCEL_SECONDS = 10.0  # the maximum wait for the end of a cancelled call, which usually takes milliseconds


def _do_nothing() -> None:
    """The default for optional functions, which also replaces the method `close` of a closed channel."""


class Transport:
    """Makes the calls of one channel. Threads may share this object.

    Attributes:
        find_state: a function that returns the state of the channel, or None if the state is unknown.
    """

    def __init__(
        self, channel: grpc.Channel, find_state: Callable[[], grpc.ChannelConnectivity | None] = _do_nothing
    ) -> None:
        """Keeps the channel. After the channel is closed, no other object may refer to it, not even `find_state`."""
        self.find_state = find_state
        self._find_unary: Callable[[str], grpc.UnaryUnaryMultiCallable[bytes, bytes]] = cache(
            channel.unary_unary  # creating a method object takes several microseconds, so `cache` keeps the objects
        )
        self._find_stream: Callable[[str], grpc.StreamStreamMultiCallable[bytes, bytes]] = channel.stream_stream
        self._close_channel: Callable[[], None] = channel.close
        _open.add(self)

    def close(self) -> None:
        """Closes and drops the channel, and cancels its running calls."""
        close, self._close_channel = self._close_channel, _do_nothing
        self._find_unary = self._find_stream = _reject
        close()

    def send(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call and returns its response. If no server can be reached, the call fails at once.

        Args:
            path: the method path.
            request: the message.
            timeout: the timeout in seconds, or None for no timeout.
            metadata: metadata of the call.

        Raises:
            TensorReshapeError: the call failed.
            ValueError: the channel is closed.
        """
        return _explain_one(lambda: self._find_unary(path)(request, timeout, metadata))

    def send_when_ready(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call like `send`, but waits for a server until the timeout."""
        return _explain_one(lambda: self._find_unary(path)(request, timeout, metadata, wait_for_ready=True))

    def start(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> "StartedCall":
        """Starts a unary call.

        Raises:
            ServiceError: no thread could be created to start the call. The main thread does not start the call instead,
                because a signal could interrupt the start halfway.
            ValueError: the channel is closed.
        """
        return StartedCall(run_aside(partial(self._find_unary(path).future, request, timeout, metadata)))

    def exchange(self, exchange: "StreamExchange", timeout: float | None, metadata: CheckedMetadata) -> None:
        """Makes a stream call. If `receive` raises an exception, the call is cancelled.

        Args:
            exchange: the messages of the call.
            timeout: the timeout in seconds, or None for no timeout.
            metadata: metadata of the call.

        Raises:
            TensorReshapeError: the call failed, or no thread could be created to start it.
            ValueError: the channel is closed.
        """
        method = self._find_stream(STREAM_RESHAPE.path)
        call = run_aside(partial(method, exchange.requests, timeout=timeout, metadata=metadata))
        del method
        try:
            for raw in _explain_all(call):
                exchange.receive(raw)
        finally:
            _cancel(call)
            del call


class StreamExchange(NamedTuple):
    """The messages of one stream call.

    Attributes:
        requests: an iterator over the messages to send, which may run on another thread.
        receive: a function that is called with each received message, even while messages are being sent.
        runs_foreign_code: whether `receive` calls a function of the caller. This function must run on the thread of the
            caller.
    """

    requests: Iterator[bytes]
    receive: Callable[[bytes], None]
    runs_foreign_code: bool


class StartedCall:
    """A running unary call."""

    def __init__(self, future: "grpc.Future[bytes]") -> None:
        """Stores the call until it is over."""
        self._futures = [future]

    def finish(self) -> bytes:
        """Waits for the end of the call and returns its response. This method can be called only once.

        Raises:
            TensorReshapeError: the call failed.
        """
        return _explain_one(self._futures.pop().result)

    def cancel(self) -> None:
        """Cancels the call, unless `finish` was called."""
        while self._futures:
            self._futures.pop().cancel()


def _explain_one(send: Callable[[], bytes]) -> bytes:
    try:
        return check_answer(send())
    except grpc.RpcError as error:
        failure = _explain_error(error)
    del send
    try:
        raise failure
    finally:
        del failure  # otherwise, the error and its traceback would refer to each other


def _explain_error(error: grpc.RpcError) -> TensorReshapeError:
    """Converts an exception of grpcio to an exception of this package.

    The returned exception has no traceback, because a traceback could refer to the call.
    """
    metadata = error.with_traceback(None).trailing_metadata() or ()
    return build_error(error.code(), error.details(), metadata)  # type: ignore[arg-type] # these are pairs


def check_answer(raw: bytes | None) -> bytes:
    """Returns the response message of a call.

    Raises:
        ResponseError: the call succeeded without a message. grpcio does not check whether there is a message.
    """
    if raw is None:
        raise ResponseError("the server ended the call without a response")
    return raw


def run_aside(run: Callable[[], _Result], cancel: Callable[[], object] = _do_nothing) -> _Result:
    """Runs a function on a thread that no signal handler interrupts, and returns its result.

    Python runs signal handlers on the main thread, between any two instructions. A handler that raises an exception can
    leave a lock of grpcio locked, or can leave a call whose events no thread takes. If a handler raises an exception
    while the main thread waits, this function calls `cancel` on another thread, and then waits up to `_CANCEL_SECONDS`
    for the end of `run`.

    The classes of `threading` and `concurrent.futures` are not used, because a handler can leave their locks locked.

    Raises:
        ServiceError: the system cannot start another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    context = copy_context()  # the thread runs in a copy of the caller's context, because a tracer may need it
    outcome, ended = list[tuple[_Result | None, BaseException | None]](), SimpleQueue[None]()

    def work() -> None:
        try:
            outcome.append((context.run(run), None))
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            outcome.append((None, error))
        ended.put(None)

    try:
        # Starting a thread takes 0.1 ms. This time does not matter, because these calls transfer thousands of queries
        # or megabytes.
        _start_thread(work)
        while not outcome:
            with suppress(Empty):
                ended.get(timeout=_SIGNAL_SECONDS)
    except ServiceError:  # no thread was started
        raise
    except BaseException:
        if not outcome:
            with suppress(ServiceError):
                _start_thread(cancel)
            with suppress(Empty):
                ended.get(timeout=_CANCEL_SECONDS)
        raise
    result, error = outcome.pop()
    if error is None:
        return result  # type: ignore[return-value] # without an error, it is the result
    try:
        raise error
    finally:
        # Otherwise, the error and its traceback would refer to each other, and keep the caller's array in memory.
        del error


def _start_thread(work: Callable[[], object]) -> None:
    try:
        start_new_thread(work, ())
    except RuntimeError:
        message = "the call could not start, because the system cannot start another thread"
        raise ServiceError(message, grpc.StatusCode.RESOURCE_EXHAUSTED) from None


def _cancel(call: Any) -> None:  # noqa: ANN401 - the interceptors of the caller choose its type
    """Cancels a call if it has not ended yet.

    Some interceptors, such as that of OpenTelemetry 0.60, return a generator instead of a call. A generator that is
    closed drops its call, and grpcio then cancels the call.
    """
    (call.cancel if hasattr(call, "cancel") else call.close)()


def _explain_all(call: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the received messages.

    Errors of gRPC are converted to errors of this package; other exceptions are unchanged.
    """
    try:
        yield from call
    except grpc.RpcError as error:
        failure = _explain_error(error)
    else:
        return
    del call
    try:
        raise failure
    finally:
        del failure


_open = WeakSet[Transport]()


def _reject(path: str) -> NoReturn:
    raise ValueError(f"cannot call {path}: the channel is closed")


def _close_all() -> None:
    # the loop has a fixed number of iterations, because other threads may still open clients
    for _ in range(len(_open)):
        try:
            transport = _open.pop()
        except KeyError:
            return
        transport.close()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):  # Windows has no `os.register_at_fork`
    # A forked child process has the parent's channels, but not the threads that could close them.
    os.register_at_fork(after_in_child=_open.clear)
