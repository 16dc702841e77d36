"""Unary calls by grpcio's own public means, and its errors as those of this package."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import cache, partial

import grpc

from tensor_reshape.client.contexts import CheckedMetadata
from tensor_reshape.client.errors import ResponseError, ServiceError
from tensor_reshape.client.statuses import build_error
from tensor_reshape.rules.errors import TensorReshapeError


class StockCalls:
    """The unary calls of one channel; safe to share between threads."""

    def __init__(self, channel: grpc.Channel) -> None:
        """Keeps the channel, which is closed by whoever made it."""
        self._find_method: Callable[[str], grpc.UnaryUnaryMultiCallable[bytes, bytes]] = cache(
            channel.unary_unary  # to make one costs several microseconds
        )

    def send(
        self,
        path: str,
        request: bytes,
        timeout: float | None,
        metadata: CheckedMetadata,
        *,
        wait_for_ready: bool = False,
    ) -> bytes:
        """Makes a call and returns its answer.

        Args:
            path: the method, as HTTP/2 has it.
            request: the message.
            timeout: seconds; None: for ever.
            metadata: sent with it.
            wait_for_ready: whether to wait for a server; if not, a call fails at once where none can be reached.

        Raises:
            TensorReshapeError: what the call ended with.
            ValueError: the channel is closed.
        """
        method = self._find_method(path)
        return explain_one(lambda: method(request, timeout, metadata, wait_for_ready=wait_for_ready or None))

    def start(
        self, path: str, request: bytes, timeout: float | None, metadata: CheckedMetadata
    ) -> "grpc.Future[bytes]":
        """Starts a call, whose end `explain_one` reads.

        Python handles signals on the main thread, between any two steps of it. Of a call that grpcio has begun by half,
        no thread awaits the events, and closing the channel would wait for them for ever. So it is begun on another
        thread; where the main one is interrupted meanwhile, the call goes on until its deadline or the channel's end.

        Raises:
            ServiceError: the system gives no thread. Then nothing is begun: on the main one it might be by half.
            ValueError: the channel is closed.
        """
        begin = partial(self._find_method(path).future, request, timeout, metadata)
        if threading.current_thread() is not threading.main_thread():
            return begin()
        with ThreadPoolExecutor(1) as other:  # started anew: 0.1 ms, for thousands of questions
            try:
                begun = other.submit(copy_context().run, begin)  # in this context, which a tracer may look at
            except RuntimeError as error:
                message = f"the call was not begun: {error}"
                raise ServiceError(message, grpc.StatusCode.RESOURCE_EXHAUSTED) from None
            return begun.result()

    def guard(self) -> AbstractContextManager[None]:
        """Returns a context that does nothing; see `DirectCalls.guard`. grpcio shows its lock to nobody."""
        return nullcontext()


def explain_one(send: Callable[[], bytes]) -> bytes:
    """Returns what `send` returns of grpcio.

    Raises:
        TensorReshapeError: what the call ended with.
    """
    try:
        return check_answer(send())
    except grpc.RpcError as error:
        raise explain_error(error) from None


def explain_error(error: grpc.RpcError) -> TensorReshapeError:
    """Returns the exception of this package for one of grpcio's."""
    metadata = error.trailing_metadata() or ()
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
