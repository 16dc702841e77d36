"""The asyncio client. Its methods and their arguments are documented at `sync.Client`.

The code of this module runs on the event loop of the client. This code needs no locks, because an event loop runs no
other code between two `await`s of a coroutine.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import cache, partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NamedTuple, NoReturn, Self, TypeAlias, Unpack, overload

import grpc
import grpc.aio
import numpy.typing as npt

from tensor_reshape.client.arguments import check_keywords, require_special_zero
from tensor_reshape.client.arrays import AnyArray, Element, Like, LikeNumpy, Output, PackedTensor
from tensor_reshape.client.base import USE_WITH, BaseClient
from tensor_reshape.client.call_cache import find_query
from tensor_reshape.client.connections import TIME_IS_UP, advise, build_error
from tensor_reshape.client.contexts import CallOptions, ClientContext, Deadline, Metadata
from tensor_reshape.client.errors import CallTimeoutError, ServiceError, UnavailableError, keep_question
from tensor_reshape.client.grpc_core import GrpcApi
from tensor_reshape.client.options import build_channel_options
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, DimLike, ShapeQuery, split_queries
from tensor_reshape.client.requests import (
    AnyResponse,
    Arguments,
    Expected,
    InferOptions,
    PreparedCall,
    ShapeAnswers,
    Target,
    build_infer_shapes,
    build_server_info,
)
from tensor_reshape.client.retries import Attempts
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.transfers import Handover, Pauses, ReshapeOptions, StreamTransfer
from tensor_reshape.client.turns import ChannelTurns
from tensor_reshape.rules.errors import ReshapeError, TensorReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.servers import HealthStatus, ServerInfo

AsyncInterceptor: TypeAlias = grpc.aio.UnaryUnaryClientInterceptor | grpc.aio.StreamStreamClientInterceptor

_FindMethod = Callable[[grpc.aio.Channel, str], "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"]
_WRITE_FAILED = "Internal error from Core"  # grpc.aio raises an error with this text if it could not write a message
_STATUS_SECONDS = 2.0
"""Seconds to wait for a call's status after a failed write. Without a status, the connection counts as lost."""
_BEAT_SECONDS = 0.1
"""Seconds between two checks of whether the event loop is blocked."""


class _End(NamedTuple):
    """A report of grpc.aio that a call has ended.

    After a failed write, grpc.aio may report the end twice, first for the write and then with the server's status.
    """

    code: grpc.StatusCode
    details: str
    metadata: Metadata

    @property
    def is_of_write(self) -> bool:
        return self.details.startswith(_WRITE_FAILED)


_Ends: TypeAlias = "asyncio.Queue[_End]"


class AsyncClient(BaseClient[AsyncInterceptor, grpc.aio.Channel]):
    """An asyncio client that reshapes arrays on a server.

    An AsyncClient belongs to the event loop in which it was created. The methods have the same arguments, results and
    errors as the methods of `Client`.

    Raises:
        RuntimeError: no event loop is running.

    >>> import asyncio
    >>> async def infer():
    ...     async with AsyncClient("localhost:50051") as client:
    ...         return await client.infer_shape((2, 3), (-1,), special_zero=False)
    >>> asyncio.run(infer())
    InferredShape([6])
    """

    async def __aenter__(self) -> Self:
        """Returns the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channels."""
        await self.close()

    if not TYPE_CHECKING:  # type checkers must not see these methods, because they would then accept a plain `with`

        def __enter__(self) -> NoReturn:
            """Rejects `with`."""
            raise TypeError(USE_WITH)

        __exit__ = __enter__

    async def close(self) -> None:
        """Closes the channels and cancels running calls."""
        # The endpoint is closed before the channels. Otherwise, calls that fail because their channel is closed would
        # be retried.
        self._endpoint.budget.close()
        if self._endpoint.is_foreign:
            # After a fork, the channels belong to the parent process. The child process does not close the channels,
            # because it has no gRPC threads that could do so.
            return
        for call in list(self._streams):
            # In some releases of grpc.aio, closing a channel does not end its streams, so each call is cancelled.
            call.cancel()
        await asyncio.gather(*(channel.close() for channel in self._turns.channels))

    @overload
    async def static_reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    async def static_reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    async def static_reshape(
        self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]
    ) -> Output: ...
    @overload
    async def static_reshape(
        self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]
    ) -> Like: ...
    @require_special_zero
    async def static_reshape(
        self,
        array: AnyArray,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes StaticReshape-1 (oneDNN Graph); see `Client.static_reshape`."""
        return await self._reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    async def dynamic_reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    async def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    async def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]
    ) -> Output: ...
    @overload
    async def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]
    ) -> Like: ...
    @require_special_zero
    async def dynamic_reshape(
        self,
        array: AnyArray,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes DynamicReshape-1 (oneDNN Graph); see `Client.dynamic_reshape`."""
        return await self._reshape(Arguments(DYNAMIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    async def reshape(
        self, array: PackedTensor, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
    ) -> PackedTensor: ...
    @overload
    async def reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    async def reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    async def reshape(
        self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]
    ) -> Output: ...
    @overload
    async def reshape(self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]) -> Like: ...
    @require_special_zero
    async def reshape(
        self,
        array: AnyArray | PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes Reshape-1 (OpenVINO); see `Client.reshape`."""
        return await self._reshape(Arguments(RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @require_special_zero
    async def infer_shape(
        self,
        data_shape: Sequence[DimLike] | None,
        shape: Sequence[DimLike] | None,
        *,
        special_zero: bool,
        timeout: float | None = None,
        **more: Unpack[InferOptions],
    ) -> InferredShape:
        """Returns the output shape of an operation; see `Client.infer_shape`."""
        call = find_query(data_shape, shape, special_zero=special_zero, more=more)
        return await self._run(call, self._endpoint.start_call(timeout, more))

    async def infer_shapes(
        self, queries: Iterable[ShapeQuery], *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> list[InferredShape | ReshapeError]:
        """Answers many shape queries; see `Client.infer_shapes`."""
        check_keywords("infer_shapes", options, ("queries", "timeout"), CallOptions)
        context = self._endpoint.start_call(timeout, options)
        self._endpoint.require_open()
        # The number of parallel calls is limited, because each call needs memory for its messages, and counts towards
        # the limits of the server. The number of asyncio tasks is not limited.
        limit = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def call_limited(piece: Sequence[ShapeQuery]) -> ShapeAnswers:
            async with limit:
                return await self._run(build_infer_shapes(piece), context)

        tasks = [asyncio.create_task(call_limited(piece)) for piece in split_queries(queries)]
        try:
            return [answer for answers in await asyncio.gather(*tasks) for answer in answers]
        finally:
            for task in tasks:
                task.cancel()  # if one call has failed, the remaining calls are cancelled

    async def check_health(
        self, service: str = SERVICE, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> HealthStatus:
        """Returns the health of a service. The service name "" stands for the whole server. Never retries."""
        return await self._request_health(service, timeout, options)

    async def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Returns the version, limits and operations of a server; see `Client.server_info`."""
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return await self._run(build_server_info(), self._endpoint.start_call(timeout, options))

    async def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until each channel is connected to a SERVING server; see `Client.wait_until_ready`."""
        seconds = self._endpoint.choose_timeout(timeout)
        self._endpoint.require_open()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(channel.channel_ready() for channel in self._turns.channels))
        except TimeoutError:
            message, fault = f"no server was ready within {seconds} seconds", await self._find_fault()
            raise UnavailableError("; ".join(filter(None, (message, fault))), grpc.StatusCode.UNAVAILABLE) from None

    def _open(self, connections: int, grpc_api: GrpcApi) -> None:
        del grpc_api  # an AsyncClient ignores `grpc_api`, because it always uses the public API grpc.aio
        try:
            asyncio.get_running_loop()  # a gRPC channel belongs to the event loop in which it is created
        except RuntimeError:
            message = "an AsyncClient needs a running event loop: create it in a coroutine, or use a Client"
            raise RuntimeError(message) from None
        channels = [self._open_channel(avoid_unhealthy=True) for _ in range(connections)]
        self._turns = ChannelTurns(channels, lambda channel: channel.get_state())
        self._streams = set[grpc.aio.StreamStreamCall[bytes, bytes]]()  # running streams
        # The gRPC methods are cached, because creating a method object takes several microseconds.
        self._find_method: _FindMethod = cache(lambda channel, path: channel.unary_unary(path))

    def _open_channel(self, *, avoid_unhealthy: bool) -> grpc.aio.Channel:
        target, credentials = self._endpoint.target, self._endpoint.credentials
        options, compression, interceptors = self._settings
        merged = build_channel_options(target, options, avoid_unhealthy=avoid_unhealthy)
        # The interceptors are passed by keyword, because tracing tools replace these functions and change this keyword
        # argument.
        if credentials is None:
            return grpc.aio.insecure_channel(target, merged, compression, interceptors=interceptors)
        return grpc.aio.secure_channel(target, credentials, merged, compression, interceptors=interceptors)

    async def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        work = self._prepare(arguments, how)
        context = self._endpoint.start_call(timeout, how)
        return await (self._run(work, context) if isinstance(work, PreparedCall) else self._stream(work, context))

    async def _run(self, call: PreparedCall[AnyResponse], context: ClientContext) -> AnyResponse:
        """Makes a call and returns its response, with retries."""
        with context:
            attempts = Attempts(self._endpoint.budget, context.deadline)
            try:
                return call.decode(await self._repeat(partial(self._send, call, context), attempts))
            except TensorReshapeError as error:
                raise advise(keep_question(error, call.question), call.method) from error.__cause__

    async def _send(
        self,
        call: PreparedCall[AnyResponse],
        context: ClientContext,
        *,
        waits: bool | None = None,
        channel: grpc.aio.Channel | None = None,
    ) -> bytes:
        seconds, metadata = self._endpoint.begin_attempt(context)
        method = self._find_method(channel or self._turns.take(), call.method)
        sent = method(call.request, timeout=seconds, metadata=metadata, wait_for_ready=waits)
        return await _explain(sent)

    async def _send_alone(self, call: PreparedCall[AnyResponse], context: ClientContext) -> bytes:
        async with self._open_channel(avoid_unhealthy=False) as channel:
            method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(call.method)
            seconds, metadata = self._endpoint.begin_attempt(context)
            return await _explain(method(call.request, timeout=seconds, metadata=metadata))

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _explain_failure(self, error: TensorReshapeError) -> TensorReshapeError:
        # This function runs on a thread, because it blocks.
        return await asyncio.to_thread(self._explain_loss, error) if isinstance(error, UnavailableError) else error

    async def _exchange_all(self, transfer: StreamTransfer, context: ClientContext, attempts: Attempts) -> Output:
        seconds, metadata = self._endpoint.begin_attempt(context)
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._turns.take().stream_stream(STREAM_RESHAPE.path)
        call = method(timeout=seconds, metadata=metadata)
        ends: _Ends = asyncio.Queue()
        call.add_done_callback(partial(_record_end, ends))
        self._streams.add(call)  # `close` cancels it
        messages, sender = transfer.build_messages(), None
        try:
            with _watch_loop(transfer.pauses):
                async with aclosing(_exchange(call, next(messages), ends, context.deadline)) as answers:
                    async for raw in answers:
                        transfer.receive(raw)
                        attempts.record_progress()
                        # The elements are sent only after the first response. If a write fails while a response is
                        # unread, grpc.aio reads no more responses, and never reports the server's status.
                        sender = sender or asyncio.create_task(_send_chunks(call, messages))
        finally:
            self._streams.discard(call)
            call.cancel()  # without `cancel`, a stream that the caller does not read to its end would stay open
            if sender is not None:
                sender.cancel()
                await asyncio.wait([sender])
                if not sender.cancelled() and isinstance(sender.exception(), MemoryError):
                    sender.result()
        return transfer.finish()


@contextmanager
def _watch_loop(pauses: Pauses) -> Iterator[None]:
    """Records for how long the code of the program blocks the event loop during the `with` block.

    While the event loop is blocked, the client neither reads nor sends, so the server may abort the stream.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.Handle

    def beat(due: float) -> None:
        nonlocal timer
        pauses.record(loop.time() - due)
        due = loop.time() + _BEAT_SECONDS
        timer = loop.call_at(due, beat, due)

    beat(loop.time())
    try:
        yield
    finally:
        timer.cancel()


async def _exchange(
    call: "grpc.aio.StreamStreamCall[bytes, bytes]", begin: bytes, ends: _Ends, deadline: Deadline
) -> AsyncGenerator[bytes, None]:
    """Sends the first message of a stream and yields the responses.

    Errors of gRPC are converted to errors of this package.
    """
    try:
        await call.write(begin)
        async for raw in call:
            yield raw
    except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.AioRpcError) as error:
        if failure := await _explain_stream(error, ends, deadline):
            raise failure from None


async def _send_chunks(call: "grpc.aio.StreamStreamCall[bytes, bytes]", messages: Iterator[bytes]) -> None:
    try:
        for message in messages:
            await call.write(message)
        await call.done_writing()
    except MemoryError:
        call.cancel()  # without `cancel`, the server would wait for the rest of the stream
        raise


async def _explain_stream(error: BaseException, ends: _Ends, deadline: Deadline) -> BaseException | None:
    """Returns the error with which a stream ended, or None if the server ended it without an error.

    The error has the server's status, even if a failed write was reported first.
    """
    if isinstance(error, asyncio.CancelledError):
        return _choose_error(error)
    if isinstance(error, asyncio.InvalidStateError) and _is_being_cancelled():
        # If the channel has interceptors, a cancelled call of grpc.aio raises InvalidStateError instead of
        # CancelledError.
        return asyncio.CancelledError()
    end = await ends.get()
    if end.is_of_write:
        with suppress(TimeoutError):
            end = await asyncio.wait_for(ends.get(), _STATUS_SECONDS)
    if end.is_of_write and deadline.is_within(0):
        return CallTimeoutError(TIME_IS_UP, grpc.StatusCode.DEADLINE_EXCEEDED)
    if end.is_of_write:
        return UnavailableError("the connection was lost while the stream was being sent", grpc.StatusCode.UNAVAILABLE)
    return None if end.code is grpc.StatusCode.OK else build_error(end.code, end.details, end.metadata)


def _record_end(ends: _Ends, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
    """Stores the status with which a call ended.

    A callback of the call reads the status, because grpc.aio overwrites the status when it reports another end.
    """
    try:
        _read_end(call).send(None)
    except StopIteration as returned:  # this coroutine never waits, because the call has already ended
        ends.put_nowait(returned.value)


async def _read_end(call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> _End:
    return _End(await call.code(), await call.details() or "", tuple(await call.trailing_metadata() or ()))


async def _explain(call: Awaitable[bytes]) -> bytes:
    """Returns the response of a call. Errors of gRPC are converted to errors of this package."""
    try:
        return await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
        raise _choose_error(error) from None


def _choose_error(error: BaseException) -> BaseException:
    if isinstance(error, grpc.aio.AioRpcError):
        return build_error(error.code(), error.details(), error.trailing_metadata() or ())
    if _is_being_cancelled():
        return error  # a cancellation is returned unchanged, because asyncio requires the same exception object
    return ServiceError("the client was closed", grpc.StatusCode.CANCELLED)


def _is_being_cancelled() -> bool:
    """Whether this task was cancelled. Returns False if only the gRPC call of the task was cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
