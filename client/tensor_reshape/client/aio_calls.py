"""How the asyncio client makes a call: sent, sent again, awaited, and explained where it fails; as `sync_calls` does.

Everything runs on the event loop that the client was made in, so nothing here has a lock, and between two `await`s
nothing else happens.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from functools import cache, partial
from typing import NamedTuple, TypeAlias, TypeVar

import grpc
import grpc.aio

from tensor_reshape.client.connections import FAULT_SECONDS, add_fault, describe_fault, describe_wait, has_failed
from tensor_reshape.client.contexts import ClientContext, Metadata
from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.client.errors import CallTimeoutError, ServiceError, UnavailableError
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.hints import HINT_SECONDS, NOTHING_TOLD, calls_for_hint, hint_size
from tensor_reshape.client.options import ChannelSettings, Endpoint, build_channel_options
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, ShapeQuery, split_queries
from tensor_reshape.client.requests import Call, ShapeAnswers, build_health_check, build_infer_shapes, build_server_info
from tensor_reshape.client.responses import Answer
from tensor_reshape.client.retries import Attempts
from tensor_reshape.client.statuses import build_error
from tensor_reshape.client.transfers import StreamTransfer
from tensor_reshape.rules.errors import LimitError, TensorReshapeError
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE

_Result = TypeVar("_Result")
_FindMethod = Callable[[str], "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"]
_WRITE_FAILED = "Internal error from Core"  # grpc.aio's own words
_STATUS_SECONDS = 2.0
"""How long the status of a call may take once a write to it has failed: the core has it, or its connection is gone."""


class _End(NamedTuple):
    """What grpc.aio tells of the end of a call: once for a write that failed, once for the server's status."""

    code: grpc.StatusCode
    details: str
    metadata: Metadata

    @property
    def is_of_write(self) -> bool:
        return self.details.startswith(_WRITE_FAILED)


_Ends: TypeAlias = "asyncio.Queue[_End]"


class AioCalls:
    """The calls of one client, over one channel."""

    def __init__(self, endpoint: Endpoint, settings: ChannelSettings) -> None:
        """Makes the channel; it connects with the first call."""
        self._endpoint = endpoint
        self._settings = settings
        self._channel = self._open_channel(avoid_unhealthy=True)
        self._streams = set[grpc.aio.StreamStreamCall[bytes, bytes]]()  # those under way
        self._find_method: _FindMethod = cache(self._channel.unary_unary)  # to make one costs several microseconds

    async def close(self) -> None:
        """Closes the channel; calls under way are cancelled."""
        self._endpoint.close()  # first: what ends by the rest must not be sent again
        if self._endpoint.is_foreign:
            return  # the parent's: here gRPC has no threads that could close it
        for call in list(self._streams):
            call.cancel()  # not every release of grpc.aio ends them with their channel
        await self._channel.close()

    async def run(self, call: Call[Answer], context: ClientContext) -> Answer:
        """Makes a call and returns its answer; one that failed is sent again, where it may be."""
        with context:
            attempts = Attempts(self._endpoint.budget, context.deadline)
            try:
                return call.decode(await self._repeat(lambda: self._send(call, context), attempts))
            except LimitError as error:
                raise await self._hint(error, call.method, len(call.request), context) from None

    async def run_batch(self, queries: Iterable[ShapeQuery], context: ClientContext) -> ShapeAnswers:
        """Makes the calls of a batch, some at a time, and returns their answers in order."""
        self._endpoint.require_open()
        # Tasks are cheap; messages in memory, and calls at a server, are not.
        room = asyncio.Semaphore(MAX_PARALLEL_CALLS)

        async def ask(piece: Sequence[ShapeQuery]) -> ShapeAnswers:
            async with room:
                return await self.run(build_infer_shapes(piece), context)

        tasks = [asyncio.create_task(ask(piece)) for piece in split_queries(queries)]
        try:
            return [answer for answers in await asyncio.gather(*tasks) for answer in answers]
        finally:
            for task in tasks:
                task.cancel()  # those that are left, where one failed

    async def stream(self, make_transfer: Callable[[], StreamTransfer], context: ClientContext) -> Output:
        """Makes the call of a stream, with a transfer of its own for each attempt."""
        attempts = Attempts(self._endpoint.budget, context.deadline)

        async def attempt() -> Output:
            transfer = make_transfer()
            try:
                return await self._exchange_all(transfer, context, attempts)
            except LimitError as error:
                raise await self._hint(error, STREAM_RESHAPE.path, transfer.largest_bytes, context) from None

        with context:
            return await self._repeat(attempt, attempts)

    async def ask_once(self, call: Call[Answer], context: ClientContext) -> Answer:
        """Makes a call to a server whatever its health, and never again."""
        # A channel of its own: the client's turns away from servers that say NOT_SERVING, so it cannot ask them.
        with context:
            async with self._open_channel(avoid_unhealthy=False) as channel:
                return call.decode(await self._send(call, context, find_method=channel.unary_unary))

    async def wait_until_ready(self, seconds: float | None) -> None:
        """Waits until a server that says SERVING is connected.

        Raises:
            UnavailableError: none was in time.
        """
        self._endpoint.require_open()
        try:
            await asyncio.wait_for(self._channel.channel_ready(), seconds)
        except TimeoutError:
            message, fault = f"no server was ready within {seconds} seconds", await self._find_fault()
            raise UnavailableError("; ".join(filter(None, (message, fault))), grpc.StatusCode.UNAVAILABLE) from None

    def _open_channel(self, *, avoid_unhealthy: bool) -> grpc.aio.Channel:
        target, credentials = self._endpoint.target, self._endpoint.credentials
        options, compression, interceptors = self._settings
        merged = build_channel_options(target, options, avoid_unhealthy=avoid_unhealthy)
        if credentials is None:
            return grpc.aio.insecure_channel(target, merged, compression, interceptors)
        return grpc.aio.secure_channel(target, credentials, merged, compression, interceptors)

    async def _hint(
        self, error: TensorReshapeError, path: str, size: int, context: ClientContext
    ) -> TensorReshapeError:
        """Returns the error of a call, with a hint where what the server says of itself, asked once, explains it."""
        if calls_for_hint(error, path) and self._endpoint.server_info is None:
            self._endpoint.server_info = NOTHING_TOLD  # already: another task is not to ask, too
            # With the metadata of the call: they may be what lets it in.
            hurried = ClientContext(Deadline(context.deadline.clip(HINT_SECONDS)), context.metadata)
            with suppress(TensorReshapeError):
                self._endpoint.server_info = await self.run(build_server_info(), hurried)
        return hint_size(error, path, size, self._endpoint.server_info)

    async def _send(
        self, call: Call[Answer], context: ClientContext, *, find_method: _FindMethod | None = None
    ) -> bytes:
        self._endpoint.require_open()
        method = (find_method or self._find_method)(call.method)
        metadata = self._endpoint.metadata + context.metadata
        return await _explain(method(call.request, timeout=context.deadline.remaining_seconds, metadata=metadata))

    async def _repeat(self, attempt: Callable[[], Awaitable[_Result]], attempts: Attempts) -> _Result:
        while True:
            try:
                result = await attempt()
            except TensorReshapeError as error:
                await self._pause(error, attempts)
            else:
                attempts.note_success()
                return result

    async def _pause(self, error: TensorReshapeError, attempts: Attempts) -> None:
        """Waits until the next attempt may begin, after one that ended with `error`; raises where there is none."""
        pause = attempts.plan_pause(error)
        if pause is None:
            raise await self._explain_end(attempts.choose_end(error)) from None
        await asyncio.sleep(pause.seconds)
        if pause.is_for_server:
            await self._await_server(attempts)
        if attempts.deadline.is_within(0):
            raise error  # not "deadline exceeded", but what kept the call until then

    async def _await_server(self, attempts: Attempts) -> None:
        """Waits until a server answers whatever it is; where none does, the next attempt tells why."""
        with attempts.wait_for_server() as seconds, suppress(TensorReshapeError):
            await self._ask_health(seconds, wait_for_ready=True)

    async def _ask_health(self, seconds: float, *, wait_for_ready: bool) -> None:
        self._endpoint.require_open()
        call, metadata = build_health_check(SERVICE), self._endpoint.metadata
        method = self._find_method(call.method)
        await _explain(method(call.request, timeout=seconds, metadata=metadata, wait_for_ready=wait_for_ready))

    async def _explain_end(self, error: TensorReshapeError) -> TensorReshapeError:
        """Returns what a call ends with: where its time was up, with what is wrong with the connection."""
        return add_fault(error, await self._find_fault()) if isinstance(error, CallTimeoutError) else error

    async def _find_fault(self) -> str:
        """Returns why no server is connected; empty where one is, and where the client is closed meanwhile."""
        if self._endpoint.budget.is_closed:
            return ""
        state = self._channel.get_state()
        if has_failed(state):
            try:
                await self._ask_health(FAULT_SECONDS, wait_for_ready=False)
            except TensorReshapeError as error:
                return describe_fault(error)
        return describe_wait(state, self._endpoint.target)

    async def _exchange_all(self, transfer: StreamTransfer, context: ClientContext, attempts: Attempts) -> Output:
        self._endpoint.require_open()
        method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(STREAM_RESHAPE.path)
        metadata = self._endpoint.metadata + context.metadata
        call = method(timeout=context.deadline.remaining_seconds, metadata=metadata)
        sender: asyncio.Task[None] | None = None
        ends: _Ends = asyncio.Queue()
        call.add_done_callback(partial(_note_end, ends))
        self._streams.add(call)  # for `close`
        try:
            async with aclosing(_exchange(call, transfer.begin, ends, context.deadline)) as answers:
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
        return _choose_error(error)
    if isinstance(error, asyncio.InvalidStateError) and _is_being_cancelled():
        return asyncio.CancelledError()  # behind interceptors grpc.aio makes the other one of it
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


async def _explain(call: Awaitable[bytes]) -> bytes:
    """Returns the answer of a call; what ends it otherwise becomes an error of this package."""
    try:
        return await call
    except (asyncio.CancelledError, grpc.aio.AioRpcError) as error:
        raise _choose_error(error) from None


def _choose_error(error: BaseException) -> BaseException:
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
