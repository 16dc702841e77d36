"""The blocking client.

Any thread may make calls with the same client. The channels of grpc are thread-safe, and a lock protects the
`RetryBudget`.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import cached_property, partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, Self, TypeAlias, Unpack, overload

import grpc
import numpy.typing as npt

from tensor_reshape.client.arguments import check_keywords, check_method, require_special_zero
from tensor_reshape.client.arrays import AnyArray, Element, Like, LikeNumpy, Output, PackedTensor
from tensor_reshape.client.base import USE_WITH, BaseClient, run_now
from tensor_reshape.client.call_cache import find_query
from tensor_reshape.client.connections import advise
from tensor_reshape.client.contexts import CallOptions, ClientContext, Deadline
from tensor_reshape.client.errors import CallTimeoutError, UnavailableError, keep_question
from tensor_reshape.client.grpc_core import GrpcApi, open_transport
from tensor_reshape.client.queries import MAX_PARALLEL_CALLS, DimLike, ShapeQuery, split_queries
from tensor_reshape.client.requests import (
    AnyResponse,
    AnyResult,
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
from tensor_reshape.client.transfers import Handover, ReshapeOptions, StreamTransfer
from tensor_reshape.client.transports import StartedCall, StreamExchange, Transport
from tensor_reshape.client.turns import ChannelTurns
from tensor_reshape.rules.errors import ReshapeError, TensorReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import HealthStatus, ServerInfo

_Parameters = ParamSpec("_Parameters")

BlockingInterceptor: TypeAlias = grpc.UnaryUnaryClientInterceptor | grpc.StreamStreamClientInterceptor

_Started: TypeAlias = tuple[PreparedCall[ShapeAnswers], StartedCall]

_PAUSE_SECONDS = 0.05  # if the server was lost during a readiness check, the next check starts after this pause


class Client(BaseClient[BlockingInterceptor, Transport]):
    """A blocking client that reshapes arrays on a server. Threads may share a client.

    Inputs may be arrays of any framework. Outputs are read-only unless you pass `writable=True`, `out=` or
    `like=torch`. A method raises a `ReshapeError` if the request is rejected, a `CallTimeoutError` if the timeout of
    the call passes, and an `UnavailableError` if no server can be reached after retries. It raises another
    `ServiceError` for any other status.

    If the connection to the server is lost, a call waits up to 10 seconds for a server. If the server is overloaded,
    the client retries with growing pauses while its retry budget lasts. The client stops waiting and retrying when the
    timeout of the call has passed.

    >>> with Client("localhost:50051") as client:
    ...     client.reshape([[1, 2], [3, 4]], [-1], special_zero=False)
    array([1, 2, 3, 4])
    """

    def __enter__(self) -> Self:
        """Returns the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channels."""
        self.close()

    if not TYPE_CHECKING:  # type checkers must not see these methods, because they would then accept `async with`

        async def __aenter__(self) -> NoReturn:
            """Rejects `async with`."""
            raise TypeError(USE_WITH)

        __aexit__ = __aenter__

    def close(self) -> None:
        """Closes the channels and cancels running calls.

        >>> client = Client("localhost:50051")
        >>> client.close()
        >>> client
        <Client of localhost:50051, closed>
        """
        # The endpoint is closed before the channels. Otherwise, calls that fail because their channel is closed would
        # be retried.
        self._endpoint.budget.close()
        # After a fork, the channels belong to the parent process. The child process does not close the channels,
        # because it has no gRPC threads that could do so.
        if not self._endpoint.is_foreign:
            for transport in self._turns.channels:
                transport.close()
        # Submitted calls that have not started are not cancelled, because a cancelled future does not always wake the
        # code that waits for it. Instead, these calls start and fail, because the client is closed.
        self._pool.shutdown(wait=False)

    @overload
    def static_reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    def static_reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    def static_reshape(
        self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]
    ) -> Output: ...
    @overload
    def static_reshape(self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]) -> Like: ...
    @require_special_zero
    def static_reshape(
        self,
        array: AnyArray,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes StaticReshape-1 (oneDNN Graph). The data is f32, f16 or bf16, and its rank is at most 12.

        Args:
            array: an array of numpy, torch, jax or PyArrow, or any object with DLPack, `__array_interface__`,
                `__array__` or a buffer. The array may have strides.
            shape: the requested shape. One item may be -1, and the server then computes its value.
            special_zero: whether a 0 in `shape` copies the input dimension at the same index. If False, a 0 is a
                dimension of size 0.
            expected_shape: the output shape that you rely on, with None for a dimension of any size.
            timeout: the timeout in seconds. By default, the timeout of the client applies.
            **how: `like` selects the framework of the output by an array or a namespace of this framework. `Transfer`
                describes the other options.

        Returns:
            An array with the same elements in row-major order, the new shape, and the element type of the input. The
                output is read-only by default.

        >>> images = np.zeros((32, 8, 8), np.float32)
        >>> client.static_reshape(images, [0, -1], special_zero=True).shape
        (32, 64)
        """
        return self._reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    def dynamic_reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]
    ) -> Output: ...
    @overload
    def dynamic_reshape(self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]) -> Like: ...
    @require_special_zero
    def dynamic_reshape(
        self,
        array: AnyArray,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes DynamicReshape-1 (oneDNN Graph).

        This method is like `static_reshape`, but the requested shape is an i32 array. A sequence of integers is sent as
        an i32 array. If the requested shape is an array, its type is not changed.

        >>> shape = np.array([3, 2], np.int32)  # known at run time
        >>> client.dynamic_reshape(np.zeros((2, 3), np.float32), shape, special_zero=False).shape
        (3, 2)
        """
        return self._reshape(Arguments(DYNAMIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    def reshape(
        self, array: PackedTensor, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
    ) -> PackedTensor: ...
    @overload
    def reshape(
        self, array: npt.NDArray[Element], shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> npt.NDArray[Element]: ...
    @overload
    def reshape(
        self, array: AnyArray, shape: Target, *, like: LikeNumpy = None, **how: Unpack[ReshapeOptions]
    ) -> Array: ...
    @overload
    def reshape(self, array: AnyArray, shape: Target, *, like: ModuleType, **how: Unpack[ReshapeOptions]) -> Output: ...
    @overload
    def reshape(self, array: AnyArray, shape: Target, *, like: Like, **how: Unpack[ReshapeOptions]) -> Like: ...
    @require_special_zero
    def reshape(
        self,
        array: AnyArray | PackedTensor,
        shape: Target,
        *,
        special_zero: bool,
        expected_shape: Expected = None,
        timeout: float | None = None,
        **how: Unpack[Handover],
    ) -> Output:
        """Executes Reshape-1 (OpenVINO).

        The data may have any element type, and the requested shape may have any integer type. Copied dimensions are
        removed from the input shape and the requested shape before the -1 is computed. For example, (4, 0, 2) with [-1,
        0] and special_zero=True becomes (8, 0). A sequence of integers is sent as an i64 array. If the elements of an
        array have less than one byte, as with int4 of ml_dtypes, they are packed when they are sent and unpacked when
        they arrive. If you pass a `PackedTensor`, the output is a `PackedTensor`.

        >>> client.reshape(np.zeros((4, 0, 2)), [-1, 0], special_zero=True).shape
        (8, 0)
        """
        return self._reshape(Arguments(RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @require_special_zero
    def infer_shape(
        self,
        data_shape: Sequence[DimLike] | None,
        shape: Sequence[DimLike] | None,
        *,
        special_zero: bool,
        timeout: float | None = None,
        **more: Unpack[InferOptions],
    ) -> InferredShape:
        """Returns the output shape of an operation.

        If both shapes are fully known, the result is exactly the output shape of the operation.

        Args:
            data_shape: the known part of the input shape. None means that nothing is known about the input shape.
            shape: the known part of the requested shape. None means that nothing is known about the requested shape.
            special_zero: whether a 0 in `shape` copies the input dimension at the same index.
            timeout: the timeout in seconds. By default, the timeout of the client applies.
            **more: the options that `ShapeOptions` and `CallOptions` describe.

        >>> client.infer_shape(["N", "C", 4], [0, -1], special_zero=True)
        InferredShape([N, 4*C])
        """
        call = find_query(data_shape, shape, special_zero=special_zero, more=more)
        return self._run(call, self._endpoint.start_call(timeout, more))

    def infer_shapes(
        self, queries: Iterable[ShapeQuery], *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> list[InferredShape | ReshapeError]:
        """Answers many queries (see `ShapeQuery`) in few calls. Each result is an `InferredShape` or a `ReshapeError`.

        >>> queries = [ShapeQuery(data_shape=[6], shape=[rows, -1], special_zero=False) for rows in (2, 4)]
        >>> known, rejected = client.infer_shapes(queries)
        >>> known, rejected.reason
        (InferredShape([2, 3]), <Reason.NOT_DIVISIBLE: 'NOT_DIVISIBLE'>)
        """
        check_keywords("infer_shapes", options, ("queries", "timeout"), CallOptions)
        context = self._endpoint.start_call(timeout, options)
        self._endpoint.require_open()
        with context:
            pieces = [*split_queries(queries)]
        # If the batch needs only one call, the caller's own thread makes this call, because starting another thread
        # would only add time.
        if len(pieces) == 1:
            return self._run(build_infer_shapes(pieces[0]), context)
        answers, started = ShapeAnswers(), deque[_Started]()
        with context:
            try:
                for piece in pieces:
                    if len(started) == MAX_PARALLEL_CALLS:
                        answers += self._await(started.popleft(), context)
                    started.append(self._start(build_infer_shapes(piece), context))
                while started:
                    answers += self._await(started.popleft(), context)
            finally:
                for _, pending in started:
                    pending.cancel()  # if one call has failed, the remaining calls are cancelled
        return answers

    def check_health(
        self, service: str = SERVICE, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> HealthStatus:
        """Returns the health of a service. The service name "" stands for the whole server. Never retries.

        >>> client.check_health()
        <HealthStatus.SERVING: 1>
        """
        return run_now(self._request_health(service, timeout, options))

    def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Returns the version, limits and operations of one of the target's servers.

        >>> client.server_info().operations["static_reshape"].max_rank
        12
        """
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return self._run(build_server_info(), self._endpoint.start_call(timeout, options))

    def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until each channel of the client is connected to a server with the health status SERVING.

        Raises:
            UnavailableError: no server was ready in time. The message contains the last connection error.

        >>> client.wait_until_ready(timeout=10)
        """
        seconds = self._endpoint.choose_timeout(timeout)
        deadline = Deadline(seconds)
        while not all(self._is_ready(deadline, transport) for transport in self._turns.channels):
            if deadline.is_within(_PAUSE_SECONDS):
                message = f"no server was ready within {seconds} seconds"
                message = "; ".join(filter(None, (message, run_now(self._find_fault()))))
                raise UnavailableError(message, grpc.StatusCode.UNAVAILABLE)
            time.sleep(_PAUSE_SECONDS)

    def submit(
        self, method: Callable[_Parameters, AnyResult], /, *arguments: _Parameters.args, **fields: _Parameters.kwargs
    ) -> Future[AnyResult]:
        """Calls a method of the client on a thread: `client.submit(client.reshape, array, shape, ...)`.

        The returned future works with `concurrent.futures.as_completed` and similar functions. If you cancel a future
        before a thread is free, its call is never sent. A running call ends when its own timeout passes, or when the
        client is closed. The number of threads is the default of Python's `ThreadPoolExecutor`. The timeout of a call
        begins when a thread starts the call.

        >>> future = client.submit(client.infer_shape, (2, 3), (-1,), special_zero=False, timeout=5)
        >>> future.result()
        InferredShape([6])
        """
        check_method(method)
        self._endpoint.require_open()
        return self._pool.submit(copy_context().run, partial(method, *arguments, **fields))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(thread_name_prefix="tensor-reshape")

    def _open(self, connections: int, grpc_api: GrpcApi) -> None:
        self._grpc_api = grpc_api
        transports = [self._open_transport(avoid_unhealthy=True) for _ in range(connections)]
        self._turns = ChannelTurns(transports, lambda transport: transport.find_state())

    def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        work = self._prepare(arguments, how)
        context = self._endpoint.start_call(timeout, how)
        return self._run(work, context) if isinstance(work, PreparedCall) else run_now(self._stream(work, context))

    def _run(self, call: PreparedCall[AnyResponse], context: ClientContext) -> AnyResponse:
        """Makes a call and returns its response, with retries."""
        # The context is entered only after an error, because entering it earlier would add a part of a microsecond to
        # every call.
        try:
            return call.decode(self._answer(call, context))
        except TensorReshapeError as error:
            with context:
                raise advise(keep_question(error, call.question), call.method) from error.__cause__

    def _is_ready(self, deadline: Deadline, transport: Transport) -> bool:
        """Waits for a server that reports SERVING.

        The method returns False if the deadline passed, or if the server was lost during the check.
        """
        try:
            # The channel sends no call before a server reports SERVING, so a server is also ready if it rejects the
            # health call.
            run_now(self._check_health(deadline.remaining_seconds, waits=True, channel=transport))
        except (CallTimeoutError, UnavailableError):
            return False
        except TensorReshapeError:
            self._endpoint.require_open()  # another thread may have closed the client
        return True

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _open_transport(self, *, avoid_unhealthy: bool) -> Transport:
        endpoint, (options, compression, interceptors) = self._endpoint, self._settings
        channel = endpoint.open_channel(endpoint.target, options, compression, avoid_unhealthy=avoid_unhealthy)
        return open_transport(channel, self._grpc_api, interceptors)

    def _answer(self, call: PreparedCall[AnyResponse], context: ClientContext) -> bytes:
        seconds, metadata = self._endpoint.begin_attempt(context)
        try:
            # An attempt does not wait for a connection to a server. If no server is connected, the attempt fails at
            # once, and `retries` plans how long to wait.
            raw = self._turns.take().send(call.method, call.request, seconds, metadata)
        except TensorReshapeError as error:
            # `Attempts` is created only after a failure, because most calls need only one attempt.
            attempts = Attempts(self._endpoint.budget, context.deadline)
            run_now(self._pause(error, attempts))
        else:
            self._endpoint.budget.record_success()
            return raw
        return run_now(self._repeat(partial(self._send, call, context), attempts))

    async def _send(
        self,
        call: PreparedCall[AnyResponse],
        context: ClientContext,
        *,
        waits: bool | None = None,
        channel: Transport | None = None,
    ) -> bytes:
        transport = channel or self._turns.take()
        send = transport.send_when_ready if waits else transport.send
        return send(call.method, call.request, *self._endpoint.begin_attempt(context))

    async def _send_alone(self, call: PreparedCall[AnyResponse], context: ClientContext) -> bytes:
        with closing(self._open_transport(avoid_unhealthy=False)) as transport:
            return transport.send(call.method, call.request, *self._endpoint.begin_attempt(context))

    def _start(self, call: PreparedCall[ShapeAnswers], context: ClientContext) -> _Started:
        # This method starts the call and does not wait for the response. Several calls of a batch therefore run at the
        # same time, and need no threads of their own.
        return call, self._turns.take().start(call.method, call.request, *self._endpoint.begin_attempt(context))

    def _await(self, started: _Started, context: ClientContext) -> ShapeAnswers:
        """Returns the result of a started call, with retries."""
        # The first attempt waits for the call that has been started. If the first attempt fails, each later attempt
        # sends the request again.
        call, pending = started
        first = iter([pending.finish])

        async def attempt() -> bytes:
            finish = next(first, None)
            return await self._send(call, context) if finish is None else finish()

        return call.decode(run_now(self._repeat(attempt, Attempts(self._endpoint.budget, context.deadline))))

    async def _exchange_all(self, transfer: StreamTransfer, context: ClientContext, attempts: Attempts) -> Output:
        def receive(raw: bytes) -> None:
            transfer.receive(raw)
            attempts.record_progress()

        exchange = StreamExchange(transfer.build_messages(), receive, runs_foreign_code=transfer.reports_progress)
        self._turns.take().exchange(exchange, *self._endpoint.begin_attempt(context))
        return transfer.finish()
