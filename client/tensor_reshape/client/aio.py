"""The client that awaits: the same names and arguments as `sync.Client`, which documents them.

Everything runs on the event loop that the client was made in, so nothing here has a lock, and between two `await`s
nothing else happens.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import cache, partial
from os import PathLike
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias, TypeVar, Unpack, overload

import grpc.aio
import numpy.typing as npt

from tensor_reshape.client.errors import CallTimeoutError, ServiceError, UnavailableError, build_error
from tensor_reshape.client.hints import HINT_SECONDS, calls_for_hint, hint_stream
from tensor_reshape.client.options import (
    DEFAULT_TARGET,
    DEFAULT_TIMEOUT_SECONDS,
    Endpoint,
    Metadata,
    build_channel_options,
    check_chunk_bytes,
)
from tensor_reshape.client.packed_tensors import PackedTensor
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, DimLike, ShapeOptions, ShapeQuery, split_queries
from tensor_reshape.client.requests import (
    Arguments,
    Call,
    Expected,
    Plan,
    Target,
    build_health_check,
    build_infer_shape,
    build_infer_shapes,
    build_server_info,
    plan_reshape,
)
from tensor_reshape.client.responses import Answer, InferredShape
from tensor_reshape.client.retries import Attempts, Deadline
from tensor_reshape.client.templates import find_call
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, StreamTransfer, Transfer
from tensor_reshape.rules.errors import LimitError, ReshapeError, TensorReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.servers import ServerInfo
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

_Result = TypeVar("_Result")
_FindMethod = Callable[[str], "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"]
_Ends: TypeAlias = "asyncio.Queue[_End]"
_WRITE_FAILED = "Internal error from Core"  # grpc.aio's own words
# How long the status of a call may take once a write to it has failed: the core has it, or its connection is gone.
_STATUS_SECONDS = 2.0


class _End(NamedTuple):
    """What grpc.aio tells of the end of a call: once for a write that failed, once for the server's status."""

    code: grpc.StatusCode
    details: str
    metadata: Metadata

    @property
    def is_of_write(self) -> bool:
        return self.details.startswith(_WRITE_FAILED)


class AsyncClient:
    """Reshapes arrays on a server, over one channel that belongs to the event loop it was made in."""

    def __init__(  # noqa: PLR0913 - options, each by its name
        self,
        target: str = DEFAULT_TARGET,
        *,
        credentials: grpc.ChannelCredentials | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        allow_plaintext_token: bool = False,
        metadata: Metadata = (),
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        inline_max_bytes: int = DEFAULT_INLINE_MAX_BYTES,
        chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    ) -> None:
        """Makes the channel, as `Client` does.

        Raises:
            RuntimeError: no event loop is running: the channel would belong to the wrong one.
        """
        asyncio.get_running_loop()
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        self._inline_max_bytes = inline_max_bytes
        self._chunk_bytes = check_chunk_bytes(chunk_bytes)
        self._channel = self._open_channel(avoid_unhealthy=True)
        self._streams = set[grpc.aio.StreamStreamCall[bytes, bytes]]()  # those under way
        self._find_method: _FindMethod = cache(self._channel.unary_unary)  # to make one costs several microseconds

    async def __aenter__(self) -> Self:
        """Returns the client itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channel."""
        await self.close()

    async def close(self) -> None:
        """Closes the channel; calls under way are cancelled."""
        self._endpoint.close()  # first: what ends by the rest must not be sent again
        for call in list(self._streams):
            call.cancel()  # not every release of grpc.aio ends them with their channel
        await self._channel.close()

    async def static_reshape(
        self,
        array: npt.ArrayLike,
        shape: Sequence[int],
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array:
        """Executes StaticReshape-1 (oneDNN Graph); see `Client.static_reshape`."""
        return await self._reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    async def dynamic_reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array:
        """Executes DynamicReshape-1 (oneAPI Graph); see `Client.dynamic_reshape`."""
        return await self._reshape(Arguments(DYNAMIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    async def reshape(
        self,
        array: PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> PackedTensor: ...
    @overload
    async def reshape(
        self,
        array: npt.ArrayLike,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array: ...
    async def reshape(
        self,
        array: npt.ArrayLike | PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Transfer],
    ) -> Array | PackedTensor:
        """Executes Reshape-1 (OpenVINO); see `Client.reshape`."""
        arguments = Arguments(RESHAPE, array, shape, special_zero, expected_shape)
        if isinstance(array, PackedTensor):
            plan = plan_reshape(arguments)
            return plan.present(await self._transfer(plan, timeout, how))
        return await self._reshape(arguments, timeout, how)

    async def infer_shape(
        self,
        data_shape: Sequence[DimLike] | None,
        shape: Sequence[DimLike] | None,
        *,
        special_zero: bool,
        timeout: float | None = None,
        **more: Unpack[ShapeOptions],
    ) -> InferredShape:
        """Asks for the output shape of an operation; see `Client.infer_shape`."""
        call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
        return await self._run(call, self._endpoint.start_deadline(timeout))

    async def infer_shapes(
        self, queries: Sequence[ShapeQuery], *, timeout: float | None = None
    ) -> list[InferredShape | ReshapeError]:
        """Asks many questions; see `Client.infer_shapes`."""
        self._endpoint.require_open()
        deadline = self._endpoint.start_deadline(timeout)
        # Tasks are cheap; messages in memory, and calls at a server, are not.
        room = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def ask(piece: Sequence[ShapeQuery]) -> list[InferredShape | ReshapeError]:
            async with room:
                return await self._run(build_infer_shapes(piece), deadline)

        tasks = [asyncio.create_task(ask(piece)) for piece in split_queries(queries)]
        try:
            return [answer for piece in await asyncio.gather(*tasks) for answer in piece]
        finally:
            for task in tasks:
                task.cancel()  # those that are left, where one failed

    async def check_health(self, service: str = SERVICE, *, timeout: float | None = None) -> HealthStatus:
        """Asks the server for the health of a service, or of the server as a whole (""); never asks again."""
        call, deadline = build_health_check(service), self._endpoint.start_deadline(timeout)
        # A channel of its own: the client's turns away from servers that say NOT_SERVING, so it cannot ask them.
        async with self._open_channel(avoid_unhealthy=False) as channel:
            return call.decode(await self._send(call, deadline.remaining_seconds, find_method=channel.unary_unary))

    async def server_info(self, *, timeout: float | None = None) -> ServerInfo:
        """Asks a server what it is; see `Client.server_info`."""
        return await self._run(build_server_info(), self._endpoint.start_deadline(timeout))

    async def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server that says SERVING is connected; see `Client.wait_until_ready`."""
        seconds = self._endpoint.choose_timeout(timeout)
        self._endpoint.require_open()
        try:
            await asyncio.wait_for(self._channel.channel_ready(), seconds)
        except TimeoutError:
            message = f"no server was ready within {seconds} seconds"
            raise UnavailableError(message, grpc.StatusCode.UNAVAILABLE) from None

    def _open_channel(self, *, avoid_unhealthy: bool) -> grpc.aio.Channel:
        options = build_channel_options(self._endpoint.target, avoid_unhealthy=avoid_unhealthy)
        if self._endpoint.credentials is None:
            return grpc.aio.insecure_channel(self._endpoint.target, options)
        return grpc.aio.secure_channel(self._endpoint.target, self._endpoint.credentials, options)

    async def _reshape(self, arguments: Arguments, timeout: float | None, how: Transfer) -> Array:
        call = None if how else find_call(arguments, self._inline_max_bytes)
        if call is not None:
            return await self._run(call, self._endpoint.start_deadline(timeout))
        return await self._transfer(plan_reshape(arguments), timeout, how)

    async def _transfer(self, plan: Plan, timeout: float | None, how: Transfer) -> Array:
        delivery = Delivery(plan, how, self._inline_max_bytes)
        deadline = self._endpoint.start_deadline(timeout)
        if delivery.way == "stream":
            # A transfer of its own for each attempt: what has arrived of a stream that was lost is not to be trusted.
            attempts = Attempts(self._endpoint.budget, deadline)
            return await self._repeat(
                lambda: self._stream(StreamTransfer(plan, delivery, self._chunk_bytes), attempts), attempts
            )
        if delivery.way == "view":
            return delivery.view(await self._run(plan.build_infer(), deadline))
        return delivery.land(await self._run(plan.build_inline(), deadline))

    async def _run(self, call: Call[Answer], deadline: Deadline) -> Answer:
        attempts = Attempts(self._endpoint.budget, deadline)
        try:
            return call.decode(await self._repeat(lambda: self._send(call, deadline.remaining_seconds), attempts))
        except LimitError as error:
            raise await self._hint(error, call, deadline) from None

    async def _hint(self, error: TensorReshapeError, call: Call[Answer], deadline: Deadline) -> TensorReshapeError:
        """Returns the error of a call, with a hint where what the server says of itself, asked once, explains it."""
        if calls_for_hint(error, call) and self._endpoint.server_info is None:
            with suppress(TensorReshapeError):
                self._endpoint.server_info = await self.server_info(timeout=deadline.clip(HINT_SECONDS))
        return hint_stream(error, call, self._endpoint.server_info)

    async def _send(
        self,
        call: Call[Answer],
        timeout: float | None,
        *,
        wait_for_ready: bool | None = None,
        find_method: _FindMethod | None = None,
    ) -> bytes:
        self._endpoint.require_open()
        method = (find_method or self._find_method)(call.method)
        try:
            return await method(
                call.request, timeout=timeout, metadata=self._endpoint.metadata, wait_for_ready=wait_for_ready
            )
        except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
            raise _explain(error) from None

    async def _repeat(self, attempt: Callable[[], Awaitable[_Result]], attempts: Attempts) -> _Result:
        while True:
            try:
                result = await attempt()
            except TensorReshapeError as error:
                pause = attempts.plan_pause(error)
                if pause is None:
                    raise attempts.choose_end(error) from None
                await asyncio.sleep(pause.seconds)
                if pause.is_for_server:
                    await self._await_server(attempts)
                if attempts.deadline.is_within(0):
                    raise  # not "deadline exceeded", but what kept the call until then
            else:
                attempts.note_success()
                return result

    async def _await_server(self, attempts: Attempts) -> None:
        """Waits until a server answers whatever it is; where none does, the next attempt tells why."""
        with attempts.wait_for_server() as seconds, suppress(TensorReshapeError):
            await self._send(build_health_check(SERVICE), seconds, wait_for_ready=True)

    async def _stream(self, transfer: StreamTransfer, attempts: Attempts) -> Array:
        self._endpoint.require_open()
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(STREAM_RESHAPE.path)
        call = method(timeout=attempts.deadline.remaining_seconds, metadata=self._endpoint.metadata)
        sender: asyncio.Task[None] | None = None
        ends: _Ends = asyncio.Queue()
        call.add_done_callback(partial(_note_end, ends))
        self._streams.add(call)  # for `close`
        try:
            async with aclosing(_exchange(call, transfer.begin, ends, attempts.deadline)) as answers:
                async for raw in answers:
                    transfer.receive(raw)
                    attempts.note_progress()
                    # With the first answer: elements are sent to whoever accepts them.
                    sender = sender or asyncio.create_task(_send_chunks(call, transfer))
        finally:
            self._streams.discard(call)
            call.cancel()  # or a stream that is given up would stay open
            if sender is not None:
                sender.cancel()
                await asyncio.gather(sender, return_exceptions=True)  # what it met, the call has told already
        return transfer.finish()


async def _exchange(
    call: "grpc.aio.StreamStreamCall[bytes, bytes]", begin: bytes, ends: _Ends, deadline: Deadline
) -> AsyncGenerator[bytes, None]:
    """Sends the first message and yields what is received; what ends the call becomes an error of this package."""
    try:
        await call.write(begin)
        async for raw in call:
            yield raw
    except (asyncio.CancelledError, asyncio.InvalidStateError, grpc.aio.AioRpcError) as error:
        raise await _explain_stream(error, ends, deadline) from None


async def _send_chunks(call: "grpc.aio.StreamStreamCall[bytes, bytes]", transfer: StreamTransfer) -> None:
    for message in transfer.build_chunks():
        await call.write(message)
    await call.done_writing()


async def _explain_stream(error: BaseException, ends: _Ends, deadline: Deadline) -> BaseException:
    """Returns what the server said of the call: a write to one that has ended hides that, whichever is known first."""
    if isinstance(error, asyncio.CancelledError):
        return _explain(error)
    end = await ends.get()
    if end.is_of_write:
        with suppress(TimeoutError):
            end = await asyncio.wait_for(ends.get(), _STATUS_SECONDS)
    if end.is_of_write and deadline.is_within(0):
        return CallTimeoutError("Deadline Exceeded", grpc.StatusCode.DEADLINE_EXCEEDED)
    if end.is_of_write:
        return UnavailableError("the stream was lost while it was written to", grpc.StatusCode.UNAVAILABLE)
    return build_error(end.code, end.details, end.metadata)


def _note_end(ends: _Ends, call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> None:
    """Notes how a call has ended, within the callback: what is told next would overwrite it."""
    try:
        _read_end(call).send(None)
    except StopIteration as returned:  # at once: a call that has ended awaits nothing
        ends.put_nowait(returned.value)


async def _read_end(call: "grpc.aio.StreamStreamCall[bytes, bytes]") -> _End:
    return _End(await call.code(), await call.details() or "", tuple(await call.trailing_metadata() or ()))


def _explain(error: BaseException) -> BaseException:
    if isinstance(error, grpc.aio.AioRpcError):
        return build_error(error.code(), error.details(), error.trailing_metadata() or ())
    if _is_being_cancelled():
        return error  # as it is: asyncio counts on it
    message = "the client was closed"
    return ServiceError(message, grpc.StatusCode.CANCELLED)


def _is_being_cancelled() -> bool:
    """Whether it is this task that was cancelled, and not the call under it."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
