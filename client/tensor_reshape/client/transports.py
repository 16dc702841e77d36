"""The calls of one channel by grpcio's public names, and its errors as those of this package.

Law: near the end of a process the main thread finalizes no object of grpcio. Such finalizers take locks. Python kills
daemon threads where they stand, and grpcio's own threads are daemons: a lock that one of them holds is never released,
and the process would wait for it for ever.

- `_close_all` closes what is open while all threads still run, and `close` drops the channel.
- A call is dropped when it is over. No error leads to it, neither by its context nor by the frames of its traceback:
  an error and its traceback are often a cycle, which the main thread may be the one to collect.
- Nothing subscribes to the state of a channel: grpcio polls it with a thread that lives on for a fifth of a second.
"""

import atexit
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from queue import SimpleQueue
from typing import NoReturn, TypeVar
from weakref import WeakSet

import grpc

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.errors import ResponseError, ServiceError
from tensor_reshape.client.statuses import build_error
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import STREAM_RESHAPE

_Begun = TypeVar("_Begun")


def _do_nothing() -> None:
    """Closes a channel that is closed; finds no state."""


class Transport:
    """The calls of one channel; safe to share between threads.

    Attributes:
        find_state: returns the state of the channel; None if it is not known.
    """

    def __init__(
        self, channel: grpc.Channel, find_state: Callable[[], grpc.ChannelConnectivity | None] = _do_nothing
    ) -> None:
        """Keeps the channel, to which nothing else may refer when it is closed; so `find_state` does not either."""
        self.find_state = find_state
        self._find_unary: Callable[[str], grpc.UnaryUnaryMultiCallable[bytes, bytes]] = cache(
            channel.unary_unary  # to make one costs several microseconds
        )
        self._find_stream: Callable[[str], grpc.StreamStreamMultiCallable[bytes, bytes]] = channel.stream_stream
        self._close_channel: Callable[[], None] = channel.close
        _open.add(self)

    def close(self) -> None:
        """Closes the channel and drops it; its calls under way are cancelled."""
        close, self._close_channel = self._close_channel, _do_nothing
        self._find_unary = self._find_stream = _refuse
        close()

    def send(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call and returns its answer. If no server can be reached, the call fails at once.

        Args:
            path: the method, as HTTP/2 has it.
            request: the message.
            timeout: seconds; None: for ever.
            metadata: sent with it.

        Raises:
            TensorReshapeError: what the call ended with.
            ValueError: the channel is closed.
        """
        return _explain_one(lambda: self._find_unary(path)(request, timeout, metadata))

    def send_when_ready(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> bytes:
        """Makes a unary call as `send` does, but waits for a server for as long as the call may take."""
        return _explain_one(lambda: self._find_unary(path)(request, timeout, metadata, wait_for_ready=True))

    def start(self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata) -> "StartedCall":
        """Starts a unary call.

        Raises:
            ServiceError: the system gives no thread. Then nothing is begun: on the main one it might be by half.
            ValueError: the channel is closed.
        """
        return StartedCall(_begin(partial(self._find_unary(path).future, request, timeout, metadata)))

    def exchange(
        self, transfer: StreamTransfer, timeout: float | None, metadata: CheckedMetadata
    ) -> Generator[bytes, None, None]:
        """Makes the call of a stream: yields what is received, and sends what `transfer` has to send meanwhile.

        To close what is returned ends the call, unless it is over.

        Args:
            transfer: takes each message as soon as it is yielded: whether it has accepted decides about what is sent
                next.
            timeout: seconds; None: for ever.
            metadata: sent with the call.

        Raises:
            TensorReshapeError: the call ended otherwise than well; as `start`, too.
            ValueError: the channel is closed.
        """
        # Holds something when the first answer is here: elements are sent to whoever accepts them. It is not an Event,
        # whose lock a signal handler that raises may leave held.
        answered = SimpleQueue[None]()
        try:
            requests = _build_requests(transfer, answered)
            method = self._find_stream(STREAM_RESHAPE.path)
            call = _begin(partial(method, requests, timeout=timeout, metadata=metadata))
            del method
            try:
                for raw in _explain_all(call):
                    yield raw
                    answered.put(None)
            finally:
                call.cancel()  # of a call that has ended nothing changes
                del call
        finally:
            answered.put(None)  # or the thread of grpcio's that sends would wait for ever


class StartedCall:
    """A unary call that is under way."""

    def __init__(self, future: "grpc.Future[bytes]") -> None:
        """Keeps the call until it is over."""
        self._futures = [future]

    def finish(self) -> bytes:
        """Awaits the end of the call, once, and returns its answer.

        Raises:
            TensorReshapeError: what the call ended with.
        """
        return _explain_one(self._futures.pop().result)

    def cancel(self) -> None:
        """Cancels the call, unless it was awaited."""
        while self._futures:
            self._futures.pop().cancel()


def _explain_one(send: Callable[[], bytes]) -> bytes:
    try:
        return check_answer(send())
    except grpc.RpcError as error:
        failure = _explain_error(error)
    del send
    raise failure


def _explain_error(error: grpc.RpcError) -> TensorReshapeError:
    """Returns the exception of this package for one of grpcio's, of which no traceback is left: it may be the call."""
    metadata = error.with_traceback(None).trailing_metadata() or ()
    return build_error(error.code(), error.details(), metadata)  # type: ignore[arg-type] # pairs, too


def check_answer(raw: bytes | None) -> bytes:
    """Returns the message that a call was answered with.

    Raises:
        ResponseError: it ended well, but without any. grpcio leaves it to its callers to notice.
    """
    if raw is None:
        message = "the server ended the call without an answer"
        raise ResponseError(message)
    return raw


def _begin(begin: Callable[[], _Begun]) -> _Begun:
    """Has grpcio begin a call whose events a thread of grpcio's awaits.

    Python handles signals on the main thread, between any two steps of it. Of a call that grpcio has begun by half, no
    thread awaits the events, and closing the channel would wait for them for ever. So the call is begun on another
    thread; if the main one is interrupted meanwhile, the call goes on until its deadline or the channel's end.
    """
    if threading.current_thread() is not threading.main_thread():
        return begin()
    with ThreadPoolExecutor(1) as other:  # started anew: 0.1 ms, for thousands of questions or megabytes
        try:
            begun = other.submit(copy_context().run, begin)  # in this context, which a tracer may look at
        except RuntimeError as error:
            message = f"the call was not begun: {error}"
            raise ServiceError(message, grpc.StatusCode.RESOURCE_EXHAUSTED) from None
        return begun.result()


def _build_requests(transfer: StreamTransfer, answered: SimpleQueue[None]) -> Iterator[bytes]:
    """Yields what is sent; consumed by a thread of grpcio's."""
    yield transfer.begin
    answered.get()
    if transfer.accepted:  # it is also there when the call has ended
        yield from transfer.build_chunks()


def _explain_all(call: Iterator[bytes]) -> Iterator[bytes]:
    """Yields what is received; what ends the call becomes an error of this package, and nothing else does."""
    try:
        yield from call
    except grpc.RpcError as error:
        failure = _explain_error(error)
    else:
        return
    del call
    raise failure


_open = WeakSet[Transport]()


def _refuse(path: str) -> NoReturn:
    message = f"cannot call {path}: the channel is closed"
    raise ValueError(message)


def _close_all() -> None:
    for _ in range(len(_open)):  # no more: other threads may open clients all the while
        try:
            transport = _open.pop()
        except KeyError:
            return
        transport.close()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):  # where there are forks
    # A child has the parent's channels without the threads that could close them.
    os.register_at_fork(after_in_child=_open.clear)
