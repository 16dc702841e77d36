"""The connection settings that the blocking client and the asyncio client share."""

import json
import os
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple
from weakref import WeakSet

import grpc

from tensor_reshape.client.contexts import (
    TRACE_KEY,
    CallOptions,
    CheckedMetadata,
    ClientContext,
    Deadline,
    Metadata,
    build_metadata,
    check_metadata,
)
from tensor_reshape.client.retries import RetryBudget
from tensor_reshape.client.tokens import AUTHORIZATION_KEY, ReadPair
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.wire.methods import SERVICE

ChannelOptions = Sequence[tuple[str, int | str | bytes]]

# The service config has no retryPolicy, because the module `retries` plans all retries. gRPC's own retries would keep
# each request in memory until its call ends, and would use a stopped server as often as a running server. Moreover,
# gRPC's own retries cannot restart a stream.
_SERVICE_CONFIG: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
# A server that is shutting down reports NOT_SERVING. The round_robin policy then uses the other servers before this
# server stops.
_HEALTH_CONFIG = {"healthCheckConfig": {"serviceName": SERVICE}}
_FOREVER_SECONDS = 10**9  # with a larger timeout, gRPC would treat the deadline as already passed
# The flow control window of a stream is the number of bytes that a server may send before the client reads them. The
# window has a fixed size, because a window that adapts to the bandwidth has no useful limit and does not make streams
# on one machine faster. Windows of 256 KiB and 512 KiB were slower by 20 %. Windows of 4 MiB and 16 MiB are equally
# fast. HAProxy 2.6 stops a stream in both directions if the window is used up while the client sends. On a busy
# machine, HAProxy stopped 4 of 84 streams of 256 MiB with a window of 4 MiB, and none of 168 streams with a window of
# 16 MiB.
_WINDOW_BYTES = 16 * 1024 * 1024
# If a host does not acknowledge sent data for this time, gRPC treats the host as lost and its calls fail. A host that
# loses its network cannot close its connections. The kernel of a running host acknowledges data even if its server is
# busy. gRPC sets this value as TCP_USER_TIMEOUT together with keepalive (gRFC A18). This timeout must be above 5 s,
# because an idle client reads ping replies only every 5 s.
_HOST_TIMEOUT_MS = 8_000
# After this time without traffic, the client sends a keepalive ping. This is the shortest interval that gRPC's own
# clients allow, and our servers accept twice as many pings. Pings are sent only while a call is running. A health watch
# counts as a running call, so an idle client pings only servers with a health service.
_PING_AFTER_MS = 10_000
# If a host acknowledges a ping but its server does not reply within this time, gRPC treats the server as lost. The
# interval before the ping and this timeout together are shorter than the default timeout of a call, so the call can
# still be sent to another server.
_PING_TIMEOUT_MS = 15_000
# This is the shortest time between two DNS lookups after a lost connection. gRPC's default is 30 s. With gRPC's default
# of 30 s, the client would find new servers too late during a rolling update, and calls would fail.
_LOOKUP_INTERVAL_MS = 2_000
MAX_CHUNK_BYTES = MAX_MESSAGE_BYTES - MAX_HEADER_BYTES  # a server accepts chunks of this size by default
MAX_CONNECTIONS = 64  # a server has at most this number of workers


class Endpoint:
    """The settings and the state of a client, which may be a blocking client or an asyncio client.

    Attributes:
        target: the target, in the form that `Client` accepts.
        credentials: TLS credentials, or None for a connection in plain text.
        is_foreign: whether this process was forked from the process that created the client.
        budget: the retry budget, which all calls share. The budget also stores whether the client is closed.
        read_trace: a function that returns the current trace of the caller, or None if tracing is off. Each call sends
            this trace.
    """

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
        metadata: Metadata,
        timeout: float,
        read_token: ReadPair | None = None,
    ) -> None:
        """Checks the arguments. Raises TypeError or ValueError if grpc could not use one of the settings."""
        if credentials is not None and not isinstance(credentials, grpc.ChannelCredentials):
            raise TypeError(f"credentials is {credentials!r}: write credentials=grpc.ssl_channel_credentials() for TLS")
        self.target = target
        self.credentials = credentials
        self._read_token = read_token
        self._metadata = self._check_authorization(check_metadata(metadata))
        self.budget = RetryBudget()
        self._timeout = choose_timeout(timeout)  # this default timeout applies to calls without their own timeout
        self.is_foreign = False
        self.read_trace: Callable[[], CheckedMetadata] | None = None
        _endpoints.add(self)

    @property
    def metadata(self) -> CheckedMetadata:
        """Returns the metadata of a call that begins now."""
        return self._metadata if self._read_token is None else (*self._metadata, self._read_token())

    def require_open(self) -> None:
        """Checks that the client may begin calls.

        Raises:
            RuntimeError: the client was created before a fork, so its connections belong to the parent process.
            ValueError: the client is closed.
        """
        # `is_closed` is also true after a fork, so that the check before every call reads only one attribute.
        if not self.budget.is_closed:
            return
        if self.is_foreign:
            message = f"the client of {self.target} was created before this process forked: create one in each process"
            raise RuntimeError(message)
        message = f"the client of {self.target} is closed: make calls inside its `with` block, or create another client"
        raise ValueError(message)

    def open_channel(
        self, address: str, own: "ChannelOptions", compression: grpc.Compression | None = None, *, avoid_unhealthy: bool
    ) -> grpc.Channel:
        """Returns a channel to an address of the target; see `build_channel_options`."""
        options = build_channel_options(self.target, own, avoid_unhealthy=avoid_unhealthy)
        if self.credentials is None:
            return grpc.insecure_channel(address, options, compression)
        return grpc.secure_channel(address, self.credentials, options, compression)

    def choose_timeout(self, timeout: float | None) -> float | None:
        """Returns the timeout of a call in seconds, or None for no timeout.

        If `timeout` is None, the client's default applies.
        """
        return self._timeout if timeout is None else choose_timeout(timeout)

    def start_call(self, timeout: float | None, options: CallOptions) -> ClientContext:
        """Starts the timeout of a call and returns its context.

        Args:
            timeout: the timeout in seconds, or None for the client's default.
            options: the options of the call. Keys that are not options of a call are ignored.

        Raises:
            ValueError: the timeout, the metadata or the request id is invalid.
        """
        metadata = self._check_authorization(build_metadata(options)) if options else ()
        if self.read_trace is not None and all(key != TRACE_KEY for key, _ in metadata):
            metadata = (*metadata, *self.read_trace())
        return ClientContext(Deadline(self.choose_timeout(timeout)), metadata)

    def begin_attempt(self, context: ClientContext) -> tuple[float | None, CheckedMetadata]:
        """Returns the remaining seconds and the metadata of an attempt that begins now.

        Raises the errors of `require_open`.
        """
        self.require_open()
        return context.deadline.remaining_seconds, self.metadata + context.metadata

    def _check_authorization(self, metadata: CheckedMetadata) -> CheckedMetadata:
        if self._read_token is not None and any(key == AUTHORIZATION_KEY for key, _ in metadata):
            message = "the client has a token, and the metadata contain another authorization: remove one of them"
            raise ValueError(message)
        return metadata


_endpoints = WeakSet[Endpoint]()


def _close_all_after_fork() -> None:
    # In a forked process, the connections of a client and gRPC's threads belong to the parent.
    for endpoint in _endpoints:
        endpoint.is_foreign = endpoint.is_foreign or not endpoint.budget.is_closed
        endpoint.budget.close()


if hasattr(os, "register_at_fork"):  # Windows has no `os.register_at_fork`
    os.register_at_fork(after_in_child=_close_all_after_fork)


class ChannelSettings(NamedTuple):
    """The settings that the caller has chosen for channels.

    Attributes:
        options: channel arguments, which override the channel arguments of this module.
        compression: the compression of requests, or None for no compression.
        interceptors: interceptors of grpc or grpc.aio.
    """

    options: ChannelOptions
    compression: grpc.Compression | None
    interceptors: Sequence[Any]


def build_channel_options(target: str, own: ChannelOptions = (), *, avoid_unhealthy: bool) -> ChannelOptions:
    """Returns channel options for load balancing and reconnection, without a message size limit.

    Args:
        target: the target, in the form that `Client` accepts.
        own: the caller's options, which override the options of this module.
        avoid_unhealthy: whether the channel avoids servers that report NOT_SERVING. A channel that avoids these servers
            cannot request their health.
    """
    config = {**_SERVICE_CONFIG, **(_HEALTH_CONFIG if avoid_unhealthy else {})}
    ours: ChannelOptions = [
        ("grpc.service_config", json.dumps(config)),
        # The client retries a lost connection after this time, so it soon finds a server that restarts. Frequent
        # attempts cost little, because a failed connection attempt costs one SYN packet.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 300),
        ("grpc.dns_min_time_between_resolutions_ms", _LOOKUP_INTERVAL_MS),
        ("grpc.keepalive_time_ms", _PING_AFTER_MS),
        ("grpc.keepalive_timeout_ms", _HOST_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
        # By default, gRPC's core sends two pings without data, and after that only one ping a minute.
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # By default http_proxy and similar variables apply to every target, but no proxy can reach this machine's own
        # addresses.
        *([("grpc.enable_http_proxy", 0)] if is_local(target) else []),
    ]
    # Each channel option is passed only once, because gRPC does not define which of two values it uses.
    return list({**dict(ours), **dict(own)}.items())


def check_settings(
    options: Sequence[tuple[Any, Any]], compression: object, interceptors: Sequence[Any]
) -> ChannelSettings:
    """Returns the settings if it is safe to pass them to grpc. grpc checks the interceptors itself.

    Raises:
        TypeError: an option name is not text, its value is not an integer, text or bytes, or the compression is
            unknown.
    """
    checked = tuple(options)  # the options are copied before the check, because an iterator can be read only once
    for name, value in checked:
        # Only ints are accepted as numbers. Values with `__int__`, such as floats and numpy's integers, must not reach
        # grpcio. grpcio would use their number as the address of a C object, and gRPC's core would read that memory.
        if not isinstance(name, str) or not isinstance(value, int | str | bytes):
            raise TypeError(f"a channel option must be a name with an integer, text or bytes, not {(name, value)!r}")
    if compression is not None and not isinstance(compression, grpc.Compression):
        raise TypeError(f"compression must be a grpc.Compression, not {compression!r}")
    return ChannelSettings(checked, compression, tuple(interceptors))


def choose_timeout(seconds: float) -> float | None:
    """Returns the timeout of a call in seconds. An infinite timeout becomes None, which grpc requires.

    Raises:
        TypeError: the timeout is not a number.
        ValueError: the timeout is not above 0.
    """
    if not hasattr(seconds, "__float__"):
        raise TypeError(f"timeout is {seconds!r}: write seconds as a number, or math.inf for no timeout")
    if not seconds > 0:  # also rejects nan
        raise ValueError(f"timeout is {seconds}; it must be above 0 seconds")
    return None if seconds > _FOREVER_SECONDS else seconds


def check_size(size: int, name: str, most: int | None = None) -> int:
    """Returns `size` if it is an integer from 1 to `most`. If `most` is None, any integer is valid.

    Raises:
        TypeError: `size` is not an integer.
        ValueError: `size` is too small or too large.
    """
    try:
        size = index(size)
    except TypeError:
        raise TypeError(f"{name} is {size!r}: write a whole number") from None
    if most is not None and not 1 <= size <= most:
        raise ValueError(f"{name} is {size}; it must be from 1 to {most}")
    return size
