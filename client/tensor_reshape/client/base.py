"""The base class of both clients, which creates a client, plans its requests, and repeats failed attempts.

The code that waits is written once for both clients, as coroutines. These coroutines call a few abstract methods, such
as `_send` and `_sleep`. An `AsyncClient` awaits the coroutines. In a `Client`, the abstract methods block and never
suspend, so `run_now` runs a coroutine to its end.
"""

import re
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing, suppress
from os import PathLike
from typing import Any, Generic, NoReturn, TypeVar
from urllib.parse import unquote

import grpc

from tensor_reshape.client.arguments import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS, check_keywords, check_target
from tensor_reshape.client.arrays import Output
from tensor_reshape.client.call_cache import FAST_OPTIONS, find_call
from tensor_reshape.client.connections import (
    FAILED_ADDRESS,
    FAULT_SECONDS,
    advise,
    describe_fault,
    describe_wait,
    explain_loss,
    explain_timeout,
)
from tensor_reshape.client.contexts import (
    LEAST_TIMEOUT_SECONDS,
    CallOptions,
    ClientContext,
    Deadline,
    Metadata,
    find_trace_reader,
)
from tensor_reshape.client.device_arrays import DeviceArray
from tensor_reshape.client.errors import CallTimeoutError, UnavailableError
from tensor_reshape.client.grpc_core import GrpcApi, check_grpc_api, open_transport
from tensor_reshape.client.options import (
    MAX_CHUNK_BYTES,
    MAX_CONNECTIONS,
    ChannelOptions,
    Endpoint,
    check_settings,
    check_size,
)
from tensor_reshape.client.requests import (
    AnyResponse,
    AnyResult,
    Arguments,
    PreparedCall,
    build_health_check,
    plan_reshape,
)
from tensor_reshape.client.retries import Attempts
from tensor_reshape.client.tokens import authorize
from tensor_reshape.client.transfers import DEFAULT_INLINE_MAX_BYTES, Delivery, Handover, StreamTransfer
from tensor_reshape.client.turns import ChannelTurns
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.wire.methods import SERVICE, STREAM_RESHAPE
from tensor_reshape.wire.reshapes import DEFAULT_CHUNK_BYTES
from tensor_reshape.wire.servers import HealthStatus

AnyInterceptor = TypeVar("AnyInterceptor")
AnyChannel = TypeVar("AnyChannel")

USE_WITH = "use `with Client(...)`, or `async with AsyncClient(...)` in asyncio"
"""The message for a `with` statement of the wrong kind."""


def run_now(work: Coroutine[Any, Any, AnyResult]) -> AnyResult:
    """Runs a coroutine whose code blocks instead of suspending, and returns its result."""
    try:
        work.send(None)
    except StopIteration as end:
        returned: AnyResult = end.value
        return returned
    raise RuntimeError("a coroutine of the blocking client suspended")


class BaseClient(ABC, Generic[AnyInterceptor, AnyChannel]):
    """The base class of `Client` and `AsyncClient`."""

    _turns: ChannelTurns[AnyChannel]

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
        connections: int = 1,
        compression: grpc.Compression | None = None,
        options: ChannelOptions = (),
        interceptors: Sequence[AnyInterceptor] = (),
        tracing: bool = False,
        grpc_api: GrpcApi = "auto",
    ) -> None:
        """Creates the channels. A channel connects when its first call is made.

        Args:
            target: `host:port`, `dns:///host:port` (balances calls over all addresses of the name) or `unix:PATH`. As
                in every gRPC client, the environment variables `grpc_proxy`, `https_proxy` and `http_proxy` may set a
                proxy. The variables `no_grpc_proxy` and `no_proxy` list exceptions. Connections to loopback addresses,
                `localhost` and unix sockets never use a proxy.
            credentials: TLS credentials from `grpc.ssl_channel_credentials`. Default: plain text.
            token: bearer token, which is sent with every call over TLS.
            token_file: file with the bearer token. The client reads the file again when it changes.
            allow_plaintext_token: allows a token without TLS if the target is on this machine.
            metadata: metadata for every call.
            timeout: default timeout of a call in seconds, including retries. `math.inf` means that calls have no
                timeout.
            inline_max_bytes: arrays up to this size are sent in one message, and larger arrays as a stream. The option
                `transfer` of a call overrides this choice.
            chunk_bytes: maximum size of each message of a stream in bytes. Small arrays are sent in smaller messages.
            connections: number of channels, from 1 to 64, which calls use in turn. Each channel has its own connection
                to each server. Several channels help if the server has several workers, because each connection is
                served by a single worker. Each worker counts the quotas of a caller separately, so more connections may
                also mean a larger quota.
            compression: gRPC compression of requests (gzip or deflate), for a proxy that decompresses them. The server
                itself rejects compressed messages. Compression helps only on slow networks.
            options: gRPC channel arguments. These arguments override the channel arguments of the SDK.
                The argument `grpc.service_config` replaces the SDK's load balancing and health checking.
            interceptors: gRPC interceptors for unary-unary and stream-stream calls, the outermost first. With
                interceptors, all calls use grpcio's public API. An `AsyncClient` needs interceptors of grpc.aio. If an
                interceptor implements both kinds of calls, grpc.aio uses it only for unary-unary calls.
            tracing: whether each call sends the current OpenTelemetry span as W3C Trace Context. All attempts of a call
                send the same span. This option needs the extra `tracing`.
            grpc_api: with "auto", a `Client` makes blocking calls directly on gRPC's core. These calls are faster, but
                they need a supported release of grpcio, and they do not work with interceptors. With "public", a
                `Client` uses only grpcio's public API, for example if another library instruments grpcio's objects.
                Both settings return the same results. An `AsyncClient` always uses the public API.
        """
        target = check_target(target)
        credentials, bearer = authorize(target, credentials, token, token_file, allow_plaintext=allow_plaintext_token)
        self._endpoint = Endpoint(target, credentials, metadata, timeout, bearer)
        if tracing:
            self._endpoint.read_trace = find_trace_reader()
        self._inline_max_bytes = check_size(inline_max_bytes, "inline_max_bytes")
        self._chunk_bytes = check_size(chunk_bytes, "chunk_bytes", MAX_CHUNK_BYTES)
        self._settings = check_settings(options, compression, interceptors)
        if check_size(connections, "connections", MAX_CONNECTIONS) > 1:
            # otherwise, channels with the same options and target would share one connection
            own = [("grpc.use_local_subchannel_pool", 1), *self._settings.options]
            self._settings = self._settings._replace(options=own)
        self._open(connections, check_grpc_api(grpc_api))

    def __repr__(self) -> str:
        """The target and state of the client, without credentials."""
        endpoint = self._endpoint
        states = ("TLS" if endpoint.credentials else "", "closed" if endpoint.budget.is_closed else "")
        return f"<{', '.join([f'{type(self).__name__} of {endpoint.target}', *filter(None, states)])}>"

    def __reduce__(self) -> NoReturn:
        """Raises an error, because a client cannot be pickled or copied."""
        message = (
            f"{self!r} cannot be pickled or copied, because it has connections: create one in each process, and share "
            "it between the threads of the process"
        )
        raise TypeError(message)

    @abstractmethod
    def _open(self, connections: int, grpc_api: GrpcApi) -> None:
        """Creates the channels. A channel connects when its first call is made."""

    @abstractmethod
    async def _send(
        self,
        call: PreparedCall[AnyResponse],
        context: ClientContext,
        *,
        waits: bool | None = None,
        channel: AnyChannel | None = None,
    ) -> bytes:
        """Sends a call once and returns its response. If `channel` is None, the call uses the next channel.

        If no server is connected, `waits` decides whether the call waits for a server or fails at once. If `waits` is
        None, a service config of the caller decides. Without a service config, the call fails.
        """

    @abstractmethod
    async def _send_alone(self, call: PreparedCall[AnyResponse], context: ClientContext) -> bytes:
        """Sends a call once, on a separate channel that also uses servers that report NOT_SERVING."""

    @abstractmethod
    async def _exchange_all(self, transfer: StreamTransfer, context: ClientContext, attempts: Attempts) -> Output:
        """Sends a stream once and returns its output."""

    @abstractmethod
    async def _sleep(self, seconds: float) -> None:
        """Waits."""

    async def _explain_failure(self, error: TensorReshapeError) -> TensorReshapeError:
        return self._explain_loss(error)

    async def _check_health(self, seconds: float | None, *, waits: bool, channel: AnyChannel | None = None) -> None:
        context = ClientContext(Deadline(seconds), ())
        await self._send(build_health_check(SERVICE), context, waits=waits, channel=channel)

    async def _request_health(self, service: str, timeout: float | None, options: CallOptions) -> HealthStatus:
        check_keywords("check_health", options, ("service", "timeout"), CallOptions)
        call, context = build_health_check(service), self._endpoint.start_call(timeout, options)
        with context:
            try:
                return call.decode(await self._send_alone(call, context))
            except UnavailableError as error:
                raise await self._explain_failure(error) from error.__cause__
            except CallTimeoutError as error:
                raise explain_timeout(error, context.deadline.seconds) from error.__cause__

    async def _stream(self, delivery: Delivery, context: ClientContext) -> Output:
        """Makes a stream call.

        Each attempt needs a new transfer, because the received part of a lost stream is not reliable.
        """
        attempts = Attempts(self._endpoint.budget, context.deadline)

        async def attempt() -> Output:
            transfer = StreamTransfer(delivery, self._chunk_bytes)
            try:
                return await self._exchange_all(transfer, context, attempts)
            except TensorReshapeError as error:
                pauses = None if self._endpoint.budget.is_closed else transfer.pauses
                raise advise(error, STREAM_RESHAPE.path, pauses) from error.__cause__

        with context, delivery.follow():
            return await self._repeat(attempt, attempts)

    async def _repeat(self, attempt: Callable[[], Coroutine[Any, Any, AnyResult]], attempts: Attempts) -> AnyResult:
        while True:
            try:
                result = await attempt()
            except TensorReshapeError as error:
                await self._pause(error, attempts)
            else:
                attempts.record_success()
                return result

    async def _pause(self, error: TensorReshapeError, attempts: Attempts) -> None:
        """Waits before the next attempt, after an attempt has failed with `error`.

        If no further attempt follows, the method raises the error of the call.
        """
        pause = attempts.plan_pause(error)
        if pause is None:
            end = attempts.choose_end(error)
            try:
                if isinstance(end, CallTimeoutError):
                    raise explain_timeout(end, attempts.deadline.seconds, await self._find_fault()) from None
                raise await self._explain_failure(end) from None
            finally:
                # Otherwise, the error and its traceback, which refer to each other, would keep the array in memory.
                del error, end
        await self._sleep(pause.seconds)
        if pause.is_for_server:
            # If no server connects in time, the next attempt reports the cause.
            with attempts.wait_for_server() as seconds, suppress(TensorReshapeError):
                await self._check_health(seconds, waits=True)
        if attempts.deadline.is_within(0):
            # The error of the failed attempt is raised, because it is more helpful than "deadline exceeded".
            raise await self._explain_failure(error)

    async def _find_fault(self) -> str:
        """Returns the reason why no server is connected.

        The returned text is empty if a server is connected or the client was closed.
        """
        if self._endpoint.budget.is_closed:
            return ""
        channel, state = self._turns.find_lost()
        if state in (None, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
            try:
                await self._check_health(FAULT_SECONDS, waits=False, channel=channel)
            except TensorReshapeError as error:
                return describe_fault(await self._explain_failure(error))
        return describe_wait(state, self._endpoint.target)

    def _explain_loss(self, error: TensorReshapeError) -> TensorReshapeError:
        """Returns the error to raise for a failed call. This method blocks, because it may make connections."""
        if isinstance(error, UnavailableError):
            error = _find_better_error(error, self._endpoint, self._settings.options)
        return explain_loss(error, self._endpoint.target)

    def _prepare(self, arguments: Arguments, how: Handover) -> PreparedCall[Output] | Delivery:
        """Returns the call that executes an operation, or a `Delivery` if the operation needs a stream.

        Raises:
            ReshapeError: the error that the server would return.
            TypeError: an argument or option has a wrong type.
            ValueError: options contradict each other.
        """
        call = find_call(arguments, self._inline_max_bytes, how) if not how or how.keys() <= FAST_OPTIONS else None
        if call is not None:
            return call
        is_view = how.get("transfer") == "view"
        device_array = DeviceArray.find(arguments.array, how.get("like")) if is_view else None
        if device_array is not None:
            arguments = arguments._replace(array=device_array.stand_in)
        plan = plan_reshape(arguments)
        delivery = Delivery(plan, how, self._inline_max_bytes, device_array)
        if delivery.way == "stream":
            return delivery
        if delivery.way == "view":
            return plan.build_infer().then(delivery.view)
        return plan.build_inline().then(delivery.land)


_HOST_NAME = re.compile(r"(?:dns:(?:///)?)?([^:/\[\]]+):(\d+)")
# gRPC calls both addresses of localhost, even if the hosts file of the machine has only one of them.
_LOOPBACKS = {"localhost": ("127.0.0.1", "::1")}
_TOTAL_SECONDS = 1.0  # the time limit of all calls to other addresses, which usually fail within milliseconds


def _find_better_error(error: UnavailableError, endpoint: Endpoint, options: ChannelOptions) -> UnavailableError:
    """Returns the error of a server at another address of the target, or `error` if no server responds there.

    If a target has several addresses, gRPC reports only the error of the address that failed last. For example,
    localhost means both 127.0.0.1 and ::1. If a server listens only on 127.0.0.1 and requires TLS, a client without TLS
    may get the error of ::1, which is "connection refused". This error would be misleading, so this function also calls
    the other addresses. These calls send no metadata, and therefore no tokens, and take at most one second together.
    """
    failed, found = FAILED_ADDRESS.search(error.message), _HOST_NAME.fullmatch(endpoint.target)
    if failed is None or found is None:
        return error
    name, port = found.groups()
    # The channel checks the host name, because a certificate usually does not contain the address of the server.
    own = [("grpc.ssl_target_name_override", name), *options]
    end = time.monotonic() + _TOTAL_SECONDS
    for address in _list_addresses(name, port):
        if address.endswith(f":{unquote(failed[1])}"):
            continue
        seconds = max(end - time.monotonic(), LEAST_TIMEOUT_SECONDS)
        channel, check = endpoint.open_channel(address, own, avoid_unhealthy=False), build_health_check(SERVICE)
        with closing(open_transport(channel, "public")) as transport, suppress(TensorReshapeError):
            try:
                transport.send(check.method, check.request, seconds, ())
            except UnavailableError as other:
                if not FAILED_ADDRESS.search(other.message):
                    return other
    return error


def _list_addresses(name: str, port: str) -> list[str]:
    """Returns the addresses of a host name in gRPC's notation."""
    hosts = dict.fromkeys(_LOOPBACKS.get(name, ()))
    with suppress(OSError):
        hosts |= dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    return [f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}" for host in hosts]
