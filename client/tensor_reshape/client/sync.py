"""The client that blocks: what callers see of it. How it makes a call is in `sync_calls`."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from os import PathLike
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn, ParamSpec, Self, TypeAlias, TypeVar, Unpack, overload

import grpc

from tensor_reshape.client.arguments import check_method, require_special_zero
from tensor_reshape.client.arrays import AnyArray
from tensor_reshape.client.contexts import CALL_OPTIONS, CallOptions, Metadata
from tensor_reshape.client.defaults import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.grpc_core import GrpcApi
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
from tensor_reshape.client.sync_calls import SyncCalls
from tensor_reshape.client.targets import check_target
from tensor_reshape.client.templates import find_call
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, Handover, ReshapeOptions, StreamTransfer
from tensor_reshape.rules.errors import ReshapeError
from tensor_reshape.rules.operations import DYNAMIC_RESHAPE, RESHAPE, STATIC_RESHAPE
from tensor_reshape.wire.arrays import Array
from tensor_reshape.wire.health import HealthStatus
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")
Like = TypeVar("Like")

Interceptor: TypeAlias = grpc.UnaryUnaryClientInterceptor | grpc.StreamStreamClientInterceptor


class Client:
    """Reshapes arrays on a server, over one channel; safe to share between threads.

    Arrays of any framework go in. What comes back is read-only, whatever its size, unless `writable=True`, `out=` or
    `like=torch` ask for memory that can be written to. Every method raises a `ReshapeError`
    for a refusal, `CallTimeoutError` when the deadline passes, `UnavailableError` when no server answers, also after
    retries, and `ServiceError` for any other end.

    A call whose server is lost, or cannot be reached, waits for one up to 10 seconds in all. Where a server has too
    much to do, it is asked again, with growing pauses, while the client's retry budget lasts. Neither goes on after the
    call's timeout.

    >>> with Client("localhost:50051") as client:
    ...     client.reshape([[1, 2], [3, 4]], [-1], special_zero=False)
    array([1, 2, 3, 4])
    """

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
        compression: grpc.Compression | None = None,
        options: ChannelOptions = (),
        interceptors: Sequence[Interceptor] = (),
        tracing: bool = False,
        grpc_api: GrpcApi = "auto",
    ) -> None:
        """Makes the channel; it connects with the first call.

        Args:
            target: `host:port`, `dns:///host:port` (calls go round all its addresses) or `unix:PATH`. As in every gRPC
                client, the environment may name a proxy for it (`grpc_proxy`, `https_proxy`, `http_proxy`, with the
                exceptions of `no_grpc_proxy` or `no_proxy`); loopback addresses, `localhost` and sockets never use one.
            credentials: for TLS, from `grpc.ssl_channel_credentials`; None connects in plain text.
            token: a bearer token that is shown with every call, over TLS.
            token_file: the file that holds one instead; it is read again when it changes, as rotated tokens do.
            allow_plaintext_token: also without TLS, where the target is this machine and nothing else.
            metadata: sent with every call.
            timeout: seconds that a call may take, retries included, where it does not say; `math.inf` waits forever.
            inline_max_bytes: arrays up to this size travel in one message, larger ones as a stream, unless `transfer`
                says otherwise.
            chunk_bytes: what one message of a stream carries.
            compression: of what is sent: gRPC's gzip or deflate, for slow networks: it takes longer than fast ones do.
            options: arguments of gRPC's channel, which win over the SDK's own; `grpc.service_config` replaces how calls
                go round servers and avoid those that do not serve.
            interceptors: gRPC's own, the outermost first: of unary-unary calls, and of stream-stream calls, which
                streams are. Calls then use grpcio's public API.
            tracing: whether each call says which trace it belongs to, that of OpenTelemetry's current span: as W3C
                Trace Context, the same with all its attempts. Needs the extra `tracing`.
            grpc_api: "auto" makes small calls on grpcio's core, which is faster, if this grpcio supports it and
                no interceptor is set. "public" uses only grpcio's public API, for example if another library
                instruments grpcio's objects. Both return the same results.
        """
        target = check_target(target)
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        if tracing:
            self._endpoint.pass_traces_on()
        self._inline_max_bytes = check_inline_max_bytes(inline_max_bytes)
        self._chunk_bytes = check_chunk_bytes(chunk_bytes)
        self._calls = self._open_calls(check_settings(options, compression, interceptors), grpc_api)
        self._pool = ThreadPoolExecutor(thread_name_prefix="tensor-reshape")  # it has no thread before `submit`

    def __enter__(self) -> Self:
        """Returns the client itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes the channel."""
        self.close()

    if not TYPE_CHECKING:  # type checkers say so by themselves, where there is no such method

        async def __aenter__(self) -> NoReturn:
            """Refuses `async with`."""
            text = "a Client blocks: write `with Client(...)`, or `async with AsyncClient(...)`"
            raise TypeError(text)

        __aexit__ = __aenter__

    def close(self) -> None:
        """Closes the channel; calls under way are cancelled.

        >>> client = Client("localhost:50051")
        >>> client.close()
        >>> client
        <Client of localhost:50051, closed>
        """
        self._calls.close()
        # What still waits for a thread gets one, and finds the client closed: who awaits a future that an executor
        # cancels is not always told.
        self._pool.shutdown(wait=False)

    def __repr__(self) -> str:
        """The client's target and state, and nothing of its credentials."""
        return self._endpoint.describe(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        """Refuses to be pickled or copied."""
        raise self._endpoint.refuse_pickling(type(self).__name__)

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
        """Executes StaticReshape-1 (oneDNN Graph): f32, f16 or bf16, rank at most 12.

        Args:
            array: any array, strided ones included: of numpy, torch, jax, PyArrow, or whatever else exports DLPack,
                `__array_interface__`, `__array__` or a buffer.
            shape: the target; -1 (once) keeps the volume.
            special_zero: whether a 0 in `shape` copies the data dim at its index; if not, it is a dim of 0.
            expected_shape: the output shape that the caller counts on, None for a dim that may be anything.
            timeout: seconds; None: the client's.
            **how: how the elements travel, where they land, and as whose array they come back: see `Transfer`; and
                `like`, an array of the framework, or its namespace.

        Returns:
            The elements in row-major order under the new shape, with the array's type: read-only, unless asked for
            otherwise.

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
        """Executes DynamicReshape-1 (oneAPI Graph): as `static_reshape`, with the target as an i32 array of rank 1.

        A plain sequence of integers is sent as i32; an array keeps the type it has.

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
        """Executes Reshape-1 (OpenVINO): every served data type, any integer array of rank 1 as the target.

        Copied dims leave both sides before -1 is resolved: (4,0,2) with [-1,0] and special_zero gives (8,0). A plain
        sequence of integers is sent as i64. Arrays of ml_dtypes' types below one byte are packed and unpacked; a
        `PackedTensor` is answered with one.

        >>> client.reshape(np.zeros((4, 0, 2)), [-1, 0], special_zero=True).shape
        (8, 0)
        """
        arguments = Arguments(RESHAPE, array, shape, special_zero, expected_shape)
        if isinstance(array, PackedTensor):
            plan = plan_reshape(arguments)
            return plan.present(self._transfer(plan, timeout, how))
        return self._reshape(arguments, timeout, how)

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
        """Asks for the output shape of an operation: "static_reshape", "dynamic_reshape" or "reshape".

        None is a shape of which nothing is known. Where all is known: exactly what executing would give.

        Args:
            data_shape: what is known of the data's shape.
            shape: what is known of the target.
            special_zero: whether a 0 in `shape` copies the data dim at its index.
            timeout: seconds; None: the client's.
            **more: see `ShapeOptions` and `CallOptions`.

        >>> client.infer_shape(["N", "C", 4], [0, -1], special_zero=True)
        InferredShape([N, 4*C])
        """
        call = build_infer_shape(data_shape, shape, special_zero=special_zero, more=more)
        return self._calls.run(call, self._endpoint.start_call(timeout, more))

    def infer_shapes(
        self, queries: Iterable[ShapeQuery], *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> list[InferredShape | ReshapeError]:
        """Asks many questions; each has its own answer, or its own refusal, which is returned; see `ShapeQuery`.

        >>> queries = [ShapeQuery(data_shape=[6], shape=[rows, -1], special_zero=False) for rows in (2, 4)]
        >>> known, refused = client.infer_shapes(queries)
        >>> known, refused.reason
        (InferredShape([2, 3]), <Reason.NOT_DIVISIBLE: 'NOT_DIVISIBLE'>)
        """
        check_keywords("infer_shapes", options, ("queries", "timeout"), CallOptions)
        context = self._endpoint.start_call(timeout, options)
        return self._calls.run_batch(queries, context)

    def check_health(
        self, service: str = SERVICE, *, timeout: float | None = None, **options: Unpack[CallOptions]
    ) -> HealthStatus:
        """Asks the server for the health of a service, or of the server as a whole (""); never asks again.

        >>> client.check_health()
        <HealthStatus.SERVING: 1>
        """
        check_keywords("check_health", options, ("service", "timeout"), CallOptions)
        return self._calls.ask_once(build_health_check(service), self._endpoint.start_call(timeout, options))

    def server_info(self, *, timeout: float | None = None, **options: Unpack[CallOptions]) -> ServerInfo:
        """Asks a server, one of those behind the target, for its version, its limits and what each operation takes.

        >>> client.server_info().operations["static_reshape"].max_rank
        12
        """
        check_keywords("server_info", options, ("timeout",), CallOptions)
        return self._calls.run(build_server_info(), self._endpoint.start_call(timeout, options))

    def wait_until_ready(self, *, timeout: float | None = None) -> None:
        """Waits until a server that says SERVING is connected.

        Raises:
            UnavailableError: none was in time; the last connection error is part of it.

        >>> client.wait_until_ready(timeout=10)
        """
        self._calls.wait_until_ready(self._endpoint.choose_timeout(timeout))

    def submit(
        self, method: Callable[_Parameters, _Result], /, *arguments: _Parameters.args, **fields: _Parameters.kwargs
    ) -> Future[_Result]:
        """Has one of the client's methods called on a thread: `client.submit(client.reshape, array, shape, ...)`.

        For `concurrent.futures.as_completed` and its kin. Cancelled before a thread was free, a call is never made; one
        under way ends by its own timeout, or with the client. There are as many threads as Python's executors have by
        default; the timeout of a call begins when it has one.

        >>> future = client.submit(client.infer_shape, (2, 3), (-1,), special_zero=False, timeout=5)
        >>> future.result()
        InferredShape([6])
        """
        check_method(method)
        self._endpoint.require_open()
        return self._pool.submit(copy_context().run, partial(method, *arguments, **fields))

    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> SyncCalls:
        """Makes the channel; a fake has another way to answer."""
        return SyncCalls(self._endpoint, settings, grpc_api)

    def _reshape(self, arguments: Arguments, timeout: float | None, how: Handover) -> Output:
        call = find_call(arguments, self._inline_max_bytes) if not how or how.keys() <= CALL_OPTIONS else None
        if call is not None:
            return self._calls.run(call, self._endpoint.start_call(timeout, how))
        return self._transfer(plan_reshape(arguments), timeout, how)

    def _transfer(self, plan: Plan, timeout: float | None, how: Handover) -> Output:
        delivery = Delivery(plan, how, self._inline_max_bytes)
        context = self._endpoint.start_call(timeout, how)
        if delivery.way == "stream":
            # Made anew for each attempt: what has arrived of a stream that was lost is not to be trusted.
            return self._calls.stream(lambda: StreamTransfer(plan, delivery, self._chunk_bytes), context)
        if delivery.way == "view":
            return delivery.view(self._calls.run(plan.build_infer(), context))
        return delivery.land(self._calls.run(plan.build_inline(), context))
