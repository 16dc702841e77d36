"""The asyncio client has the same names and arguments as `sync.Client`, which documents them.

The module `aio_calls` makes the calls of this client.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias, TypeVar, Unpack, overload

import grpc.aio

from tensor_reshape.client.aio_calls import AioCalls, require_loop
from tensor_reshape.client.arguments import require_special_zero
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
from tensor_reshape.client.transfers import Handover, ReshapeOptions
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo

Like = TypeVar("Like")

Interceptor: TypeAlias = grpc.aio.UnaryUnaryClientInterceptor | grpc.aio.StreamStreamClientInterceptor


class AsyncClient(BaseClient[AioCalls, Interceptor]):
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
        """Closes the channel."""
        await self.close()

    if not TYPE_CHECKING:  # type checkers must not see these methods, because they would then accept a plain `with`

        def __enter__(self) -> NoReturn:
            """Rejects `with`."""
            raise TypeError(USE_WITH)

        __exit__ = __enter__

    async def close(self) -> None:
        """Closes the channel and cancels running calls."""
        await self._calls.close()

    @overload
    async def static_reshape(
        self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
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
        self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
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
        """Executes DynamicReshape-1 (oneAPI Graph); see `Client.dynamic_reshape`."""
        return await self._reshape(Arguments(DYNAMIC_RESHAPE, array, shape, special_zero, expected_shape), timeout, how)

    @overload
    async def reshape(
        self, array: PackedTensor, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
    ) -> PackedTensor: ...
    @overload
    async def reshape(
        self, array: AnyArray, shape: Target, *, like: None = None, **how: Unpack[ReshapeOptions]
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
        call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
        return await self._calls.run(call, self._endpoint.start_call(timeout, more))

    async def infer_shapes(
        self, queries: Iterable[ShapeQuery], *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> list[InferredShape | ReshapeError]:
        """Answers many queries; see `Client.infer_shapes`."""
        check_keywords("infer_shapes", options, ("queries", "timeout"), CallOptions)
        context = self._endpoint.start_call(timeout, options)
        return await self._calls.run_batch(queries, context)

    async def check_health(
        self, service: str = SERVICE, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> HealthStatus:
        """Returns the health of a service, or of the whole server (""). Never retries."""
        check_keywords("check_health", options, ("service", "timeout"), CallOptions)
        return await self._calls.call_once(build_health_check(service), self._endpoint.start_call(timeout, options))

    async def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Returns the version, limits and operations of a server; see `Client.server_info`."""
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return await self._calls.run(build_server_info(), self._endpoint.start_call(timeout, options))

    async def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server with health status SERVING is connected; see `Client.wait_until_ready`."""
        await self._calls.wait_until_ready(self._endpoint.choose_timeout(timeout))

    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> AioCalls:
        require_loop()
        del grpc_api  # an AsyncClient ignores `grpc_api`, because it always uses the public API grpc.aio
        return AioCalls(self._endpoint, settings)

    async def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        work = self._prepare(arguments, how)
        context = self._endpoint.start_call(timeout, how)
        return await (self._calls.run(work, context) if isinstance(work, Call) else self._calls.stream(work, context))
