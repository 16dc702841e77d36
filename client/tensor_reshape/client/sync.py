"""The blocking client and its public methods. The module `sync_calls` makes the calls of this client."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cached_property, partial
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, Self, TypeAlias, TypeVar, Unpack, overload

import grpc

from tensor_reshape.client.arguments import check_method, require_special_zero
from tensor_reshape.client.arrays import AnyArray
from tensor_reshape.client.base import USE_WITH, BaseClient
from tensor_reshape.client.contexts import CallOptions
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.grpc_core import GrpcApi
from tensor_reshape.client.options import ChannelSettings
from tensor_reshape.client.packed_tensors import PackedTensor
from tensor_reshape.client.queries import DimLike, ShapeQuery
from tensor_reshape.client.requests import (
    Arguments,
    Call,
    Expected,
    InferOptions,
    Target,
    build_health_check,
    build_infer_shape,
    build_server_info,
    check_keywords,
)
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.sync_calls import SyncCalls
from tensor_reshape.client.transfers import Handover, ReshapeOptions
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo

_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")
Like = TypeVar("Like")

Interceptor: TypeAlias = grpc.UnaryUnaryClientInterceptor | grpc.StreamStreamClientInterceptor


class Client(BaseClient[SyncCalls, Interceptor]):
    """A blocking client that reshapes arrays on a server. Threads may share a client.

    Inputs may be arrays of any framework. Outputs are read-only unless you pass `writable=True`, `out=` or
    `like=torch`. A method raises a `ReshapeError` if the request is rejected, `CallTimeoutError` after its timeout,
    `UnavailableError` if no server can be reached after retries, and another `ServiceError` for any other status.

    If the connection to the server is lost, a call waits up to 10 seconds for a server. If the server is overloaded,
    the client retries with growing pauses while its retry budget lasts. Waiting and retrying end with the timeout of
    the call.

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
        """Closes the channel."""
        self.close()

    if not TYPE_CHECKING:  # type checkers must not see these methods, because they would then accept `async with`

        async def __aenter__(self) -> NoReturn:
            """Rejects `async with`."""
            raise TypeError(USE_WITH)

        __aexit__ = __aenter__

    def close(self) -> None:
        """Closes the channel and cancels running calls.

        >>> client = Client("localhost:50051")
        >>> client.close()
        >>> client
        <Client of localhost:50051, closed>
        """
        self._calls.close()
        # Submitted calls that have not started are not cancelled, because a cancelled future does not always wake the
        # code that waits for it. Instead, these calls start and fail, because the client is closed.
        self._pool.shutdown(wait=False)

    @overload
    def static_reshape(
        self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
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
            timeout: seconds. By default, the timeout of the client applies.
            **how: `like` is an array or the namespace of the framework for the output. `Transfer` describes
                the other options.

        Returns:
            The elements in row-major order with the new shape and the type of the array. The output is read-only by
                default.

        >>> images = np.zeros((32, 8, 8), np.float32)
        >>> client.static_reshape(images, [0, -1], special_zero=True).shape
        (32, 64)
        """
        return self._reshape(Arguments(STATIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    def dynamic_reshape(
        self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
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
        """Executes DynamicReshape-1 (oneAPI Graph).

        This is like `static_reshape`, but the requested shape is an i32 array. A sequence of integers is sent as an i32
        array. If the requested shape is an array, its type is not changed.

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
    def reshape(self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]) -> Array: ...
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
        0] and special_zero=True becomes (8, 0). A sequence of integers is sent as an i64 array. Arrays of ml_dtypes'
        types with less than one byte are packed when they are sent and unpacked when they arrive. If you pass a
        `PackedTensor`, the output is a `PackedTensor`.

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

        If both shapes are fully known, the result is exactly that of the operation.

        Args:
            data_shape: the known part of the input shape. None means that nothing is known about the input shape.
            shape: the known part of the requested shape. None means that nothing is known about the requested shape.
            special_zero: whether a 0 in `shape` copies the input dimension at the same index.
            timeout: seconds. By default, the timeout of the client applies.
            **more: see `ShapeOptions` and `CallOptions`.

        >>> client.infer_shape(["N", "C", 4], [0, -1], special_zero=True)
        InferredShape([N, 4*C])
        """
        call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
        return self._calls.run(call, self._endpoint.start_call(timeout, more))

    def infer_shapes(
        self, queries: Iterable[ShapeQuery], *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> list[InferredShape | ReshapeError]:
        """Answers many queries (see `ShapeQuery`) in few calls. Each result is a shape, or an error as an object.

        >>> queries = [ShapeQuery(data_shape=[6], shape=[rows, -1], special_zero=False) for rows in (2, 4)]
        >>> known, rejected = client.infer_shapes(queries)
        >>> known, rejected.reason
        (InferredShape([2, 3]), <Reason.NOT_DIVISIBLE: 'NOT_DIVISIBLE'>)
        """
        check_keywords("infer_shapes", options, ("queries", "timeout"), CallOptions)
        context = self._endpoint.start_call(timeout, options)
        return self._calls.run_batch(queries, context)

    def check_health(
        self, service: str = SERVICE, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> HealthStatus:
        """Returns the health of a service, or of the whole server (""). Never retries.

        >>> client.check_health()
        <HealthStatus.SERVING: 1>
        """
        check_keywords("check_health", options, ("service", "timeout"), CallOptions)
        return self._calls.call_once(build_health_check(service), self._endpoint.start_call(timeout, options))

    def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Returns the version, limits and operations of one of the servers behind the target.

        >>> client.server_info().operations["static_reshape"].max_rank
        12
        """
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return self._calls.run(build_server_info(), self._endpoint.start_call(timeout, options))

    def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server with health status SERVING is connected.

        Raises:
            UnavailableError: no server was ready in time. The message contains the last connection error.

        >>> client.wait_until_ready(timeout=10)
        """
        self._calls.wait_until_ready(self._endpoint.choose_timeout(timeout))

    def submit(
        self, method: Callable[_Parameters, _Result], /, *arguments: _Parameters.args, **fields: _Parameters.kwargs
    ) -> Future[_Result]:
        """Calls a method of the client on a thread: `client.submit(client.reshape, array, shape, ...)`.

        The returned future works with `concurrent.futures.as_completed` and similar functions. If you cancel a future
        before a thread is free, its call is never sent. A running call ends when its own timeout passes, or when the
        client is closed. The number of threads is the default number of Python's executors. The timeout of a call
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

    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> SyncCalls:
        return SyncCalls(self._endpoint, settings, grpc_api)

    def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        work = self._prepare(arguments, how)
        context = self._endpoint.start_call(timeout, how)
        return self._calls.run(work, context) if isinstance(work, Call) else self._calls.stream(work, context)
