"""The base class of both clients, which creates a client and plans its requests."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Generic, NoReturn, TypeAlias, TypeVar

import grpc

from tensor_reshape.client.call_cache import FAST_OPTIONS, find_call
from tensor_reshape.client.contexts import Metadata
from tensor_reshape.client.defaults import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.frameworks import Output
from tensor_reshape.client.grpc_core import GrpcApi, check_grpc_api
from tensor_reshape.client.options import (
    ChannelOptions,
    ChannelSettings,
    Endpoint,
    check_chunk_bytes,
    check_inline_max_bytes,
    check_settings,
)
from tensor_reshape.client.requests import Arguments, Call, plan_reshape
from tensor_reshape.client.targets import check_target
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, Handover, StreamTransfer
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES

Calls = TypeVar("Calls")
Interceptor = TypeVar("Interceptor")

MakeTransfer: TypeAlias = Callable[[], StreamTransfer]
"""A function that returns a new transfer.

Each attempt needs a new transfer, because the received part of a lost stream is not reliable.
"""

USE_WITH = "use `with Client(...)`, or `async with AsyncClient(...)` in asyncio"
"""The message for a `with` statement of the wrong kind."""


class BaseClient(ABC, Generic[Calls, Interceptor]):
    """The base class of `Client` and `AsyncClient`."""

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
        grpc_api: GrpcApi = "auto",
    ) -> None:
        """Creates the channel, which connects with the first call.

        Args:
            target: `host:port`, `dns:///host:port` (balances calls over all addresses of the name) or `unix:PATH`. As
                in every gRPC client, the environment may set a proxy (`grpc_proxy`, `https_proxy`, `http_proxy`, with
                exceptions in `no_grpc_proxy` or `no_proxy`). Connections to loopback addresses, `localhost` and unix
                sockets never use a proxy.
            credentials: TLS credentials from `grpc.ssl_channel_credentials`. Default: plain text.
            token: bearer token, which is sent with every call over TLS.
            token_file: file with the bearer token. The client reads the file again when it changes.
            allow_plaintext_token: allows a token without TLS if the target is on this machine.
            metadata: metadata for every call.
            timeout: default timeout of a call in seconds, including retries. `math.inf` means that calls have no
                timeout.
            inline_max_bytes: arrays up to this size are sent in one message, and larger arrays as a stream. The option
                `transfer` of a call overrides this choice.
            chunk_bytes: size of each message of a stream in bytes.
            compression: gRPC compression of requests (gzip or deflate). Compression only helps on slow networks.
            options: gRPC channel arguments. These arguments override the channel arguments of the SDK.
                The argument `grpc.service_config` replaces the SDK's load balancing and health checking.
            interceptors: gRPC interceptors for unary-unary and stream-stream calls, the outermost first. With
                interceptors, all calls use grpcio's public API. An `AsyncClient` needs interceptors of grpc.aio.
                grpc.aio uses each interceptor for only one kind of call, which is the first kind that the interceptor
                implements.
            tracing: whether each call sends the current OpenTelemetry span as W3C Trace Context. All attempts of a call
                send the same span. This option needs the extra `tracing`.
            grpc_api: with "auto", a `Client` makes small calls directly on gRPC's core. These calls are faster, but
                they need a supported release of grpcio, and they do not work with interceptors. With "public", a
                `Client` uses only grpcio's public API, for example if another library instruments grpcio's objects.
                Both settings return the same results. An `AsyncClient` always uses the public API.
        """
        target = check_target(target)
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        if tracing:
            self._endpoint.pass_traces_on()
        self._inline_max_bytes = check_inline_max_bytes(inline_max_bytes)
        self._chunk_bytes = check_chunk_bytes(chunk_bytes)
        self._calls = self._open_calls(check_settings(options, compression, interceptors), check_grpc_api(grpc_api))

    def __repr__(self) -> str:
        """The target and state of the client, without credentials."""
        return self._endpoint.describe(type(self).__name__)

    def __reduce__(self) -> NoReturn:
        """Raises an error, because a client cannot be pickled or copied."""
        raise self._endpoint.reject_pickling(type(self).__name__)

    @abstractmethod
    def _open_calls(self, settings: ChannelSettings, grpc_api: GrpcApi) -> Calls:
        """Creates the object that makes the calls."""

    def _prepare(self, arguments: Arguments, how: Handover) -> Call[Output] | MakeTransfer:
        """Returns the call that executes an operation, or for a stream, the function that creates its transfer.

        Raises:
            ReshapeError: the error that the server would return.
            TypeError: an argument or option has a wrong type.
            ValueError: options contradict each other.
        """
        call = find_call(arguments, self._inline_max_bytes, how) if not how or how.keys() <= FAST_OPTIONS else None
        if call is not None:
            return call
        plan = plan_reshape(arguments)
        delivery = Delivery(plan, how, self._inline_max_bytes)
        if delivery.way == "stream":
            return lambda: StreamTransfer(plan, delivery, self._chunk_bytes)
        if delivery.way == "view":
            return plan.build_infer().then(delivery.view)
        return plan.build_inline().then(delivery.land)
