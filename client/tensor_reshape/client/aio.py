"""The asyncio client: the same names and arguments as `sync.Client`, which documents them.

`aio_calls` makes the calls.
"""

import asyncio
from collections.abc import Iterable, Sequence
from os import PathLike
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn, Self, TypeAlias, TypeVar, Unpack, overload

import grpc.aio

from tensor_reshape.client.aio_calls import AioCalls
from tensor_reshape.client.arguments import require_special_zero
from tensor_reshape.client.arrays import AnyArray
from tensor_reshape.client.contexts import CallOptions, Metadata
from tensor_reshape.client.defaults import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.options import (
    ChannelOptions,
    ChannelSettings,
    Endpoint,
    check_chunk_bytes,
    check_inline_max_bytes,
    check_settings,
)
from tensor_reshape.client.packed_tensors import PackedTensor
from tensor_reshape.client.queries import DimLike, ShapeQuery
from tensor_reshape.client.requests import (
    Arguments,
    Expected,
    InferOptions,
    Plan,
    Target,
    build_health_check,
    build_infer_shape,
    build_server_info,
    check_keywords,
    plan_reshape,
)
from tensor_reshape.client.shapes import InferredShape
from tensor_reshape.client.targets import check_target
from tensor_reshape.client.templates import FAST_OPTIONS, find_call
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, Handover, ReshapeOptions, StreamTransfer
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

Like = TypeVar("Like")

Interceptor: TypeAlias = grpc.aio.UnaryUnaryClientInterceptor | grpc.aio.StreamStreamClientInterceptor


class AsyncClient:
    """An asyncio client that reshapes arrays on a server. It belongs to the event loop in which it was created.

    >>> import asyncio
    >>> async def ask():
    ...     async with AsyncClient("localhost:50051") as client:
    ...         return await client.infer_shape((2, 3), (-1,), special_zero=False)
    >>> asyncio.run(ask())
    InferredShape([6])
    """

    def __init__(  # noqa: PLR0913 - each option has its name
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
        compression: grpc.Compression | None = None,
        options: ChannelOptions = (),
        interceptors: Sequence[Interceptor] = (),
        tracing: bool = False,
    ) -> None:
        """Creates the channel; see `Client`.

        Interceptors must be of grpc.aio, which uses each of them for only one kind of call: the first kind that it
        implements.

        Raises:
            RuntimeError: no event loop is running, so the channel would belong to the wrong one.
        """
        _require_loop()
        target = check_target(target)
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        if tracing:
            self._endpoint.pass_traces_on()
        self._inline_max_bytes = check_inline_max_bytes(inline_max_bytes)
        self._chunk_bytes = check_chunk_bytes(chunk_bytes)
        self._calls = self._open_calls(check_settings(options, compression, interceptors))

    async def __aenter__(self) -> Self:
        """Returns the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channel."""
        await self.close()

    if not TYPE_CHECKING:  # type checkers report the missing method themselves

        def __enter__(self) -> NoReturn:
            """Rejects `with`."""
            text = "use `async with AsyncClient(...)`, because an AsyncClient is for asyncio"
            raise TypeError(text)

        __exit__ = __enter__

    async def close(self) -> None:
        """Closes the channel and cancels running calls."""
        await self._calls.close()

    def __repr__(self) -> str:
        """The target and state of the client, without credentials."""
        return self._endpoint.describe(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        """Rejects pickling and copying."""
        raise self._endpoint.reject_pickling(type(self).__name__)

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
        arguments = Arguments(RESHAPE, array, shape, special_zero, expected_shape)
        if isinstance(array, PackedTensor):
            plan = plan_reshape(arguments)
            return plan.present(await self._transfer(plan, timeout, how))
        return await self._reshape(arguments, timeout, how)

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
        return await self._calls.ask_once(build_health_check(service), self._endpoint.start_call(timeout, options))

    async def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Returns the version, limits and operations of a server; see `Client.server_info`."""
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return await self._calls.run(build_server_info(), self._endpoint.start_call(timeout, options))

    async def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server with health status SERVING is connected; see `Client.wait_until_ready`."""
        await self._calls.wait_until_ready(self._endpoint.choose_timeout(timeout))

    def _open_calls(self, settings: ChannelSettings) -> AioCalls:
        """Creates the object that makes calls; a fake client overrides it."""
        return AioCalls(self._endpoint, settings)

    async def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        call = find_call(arguments, self._inline_max_bytes, how) if not how or how.keys() <= FAST_OPTIONS else None
        if call is not None:
            return await self._calls.run(call, self._endpoint.start_call(timeout, how))
        return await self._transfer(plan_reshape(arguments), timeout, how)

    async def _transfer(self, plan: Plan, timeout: float | None, how: Handover) -> Output:
        delivery = Delivery(plan, how, self._inline_max_bytes)
        context = self._endpoint.start_call(timeout, how)
        if delivery.way == "stream":
            # Created again for each attempt, because the received part of a lost stream is not reliable.
            return await self._calls.stream(lambda: StreamTransfer(plan, delivery, self._chunk_bytes), context)
        if delivery.way == "view":
            return delivery.view(await self._calls.run(plan.build_infer(), context))
        return delivery.land(await self._calls.run(plan.build_inline(), context))


def _require_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        message = "an AsyncClient needs a running event loop: create it in a coroutine, or use a Client"
        raise RuntimeError(message) from None
