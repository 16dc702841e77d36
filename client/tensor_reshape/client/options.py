"""How a client reaches its servers: what both clients are made with."""

import json
import os
from collections.abc import Callable, Sequence
from operator import index
from typing import Any, NamedTuple
from weakref import WeakSet

import grpc

from tensor_reshape.client.contexts import (
    CallOptions,
    CheckedMetadata,
    ClientContext,
    Metadata,
    build_metadata,
    check_metadata,
)
from tensor_reshape.client.deadlines import Deadline
from tensor_reshape.client.retries import RetryBudget
from tensor_reshape.client.tokens import AUTHORIZATION_KEY, Token
from tensor_reshape.client.traces import TRACE_KEY, find_trace_reader
from tensor_reshape.rules.limits import MAX_HEADER_BYTES, MAX_MESSAGE_BYTES
from tensor_reshape.runtime.addresses import is_local
from tensor_reshape.wire.methods import SERVICE
from tensor_reshape.wire.servers import ServerInfo

ChannelOptions = Sequence[tuple[str, int | str | bytes]]

# No retryPolicy: `retries` plans what is sent again, and one mechanism is enough. grpc's own would keep each request
# whole until its call ends, ask a server that is down as often as one that is up, and cannot begin a stream anew.
_SERVICE_CONFIG: dict[str, object] = {"loadBalancingConfig": [{"round_robin": {}}]}
# A server that drains says NOT_SERVING: round_robin then turns to the others before it stops.
_HEALTH_CONFIG = {"healthCheckConfig": {"serviceName": SERVICE}}
_FOREVER_SECONDS = 10**9  # grpc takes so many and more for a deadline that has passed
# What a server may send on a stream before it is read: some chunks. Fixed, since one that follows the bandwidth has no
# bound worth the name, and streams on one machine are no faster with it. 256 KiB and 512 KiB were slower by a fifth.
_WINDOW_BYTES = 4 * 1024 * 1024
# A host that is cut off closes nothing. The kernel of one that is there acknowledges what is sent to it, however busy
# its server is: so where nothing does for this long, the host is gone, and its calls are lost (TCP_USER_TIMEOUT, which
# gRPC sets where there is keepalive; gRFC A18). Above 5 s: that seldom an idle client looks for the answer to a ping.
_HOST_TIMEOUT_MS = 8_000
# What is asked of a connection that has been silent: the least that gRPC's own clients ask, and half as often as our
# servers allow. Only while there is a call, as the watch of the health is: whoever does not serve that is not pinged.
_PING_AFTER_MS = 10_000
# A server whose host acknowledges a ping, but which answers none for this long, hangs. With the time before it this is
# less than the default timeout, so that what it was sent is sent to another one.
_PING_TIMEOUT_MS = 15_000
# Addresses are looked up when a connection is lost, and again no sooner than this. By default it is 30 s: of servers
# that are replaced one after another, the new ones would be found after the patience of a call has ended.
_LOOKUP_INTERVAL_MS = 2_000
_MAX_CHUNK_BYTES = MAX_MESSAGE_BYTES - MAX_HEADER_BYTES  # what servers take by default


class Endpoint:
    """What both clients keep: where they call, with what, and whether they still may.

    Attributes:
        target: as `Client` takes it.
        credentials: for TLS; None connects in plain text.
        is_foreign: whether this process is a fork of the one that it was made in, where it was open.
        budget: what its calls may cost a server beyond their first attempts; shared by all of them.
        server_info: what the server says of itself, once an error needed it; any thread may set it.
    """

    def __init__(
        self,
        target: str,
        credentials: grpc.ChannelCredentials | None,
        metadata: Metadata,
        timeout: float,
        token: Token | None = None,
    ) -> None:
        """Raises TypeError or ValueError where grpc could not take one of them."""
        _check_credentials(credentials)
        self.target = target
        self.credentials = credentials
        self._token = token
        self._metadata = self._check_authorization(check_metadata(metadata))
        self.budget = RetryBudget()
        self.server_info: ServerInfo | None = None
        self._timeout = choose_timeout(timeout)  # of most calls
        self.is_foreign = False
        self._read_trace: Callable[[], CheckedMetadata] | None = None  # None costs calls nothing
        _endpoints.add(self)

    @property
    def metadata(self) -> CheckedMetadata:
        """What is sent with a call that begins now."""
        return self._metadata if self._token is None else (*self._metadata, self._token.read_pair())

    def close(self) -> None:
        """Lets no call begin, and none be sent again."""
        self.budget.close()

    def require_open(self) -> None:
        """Checks that calls may begin.

        Raises:
            RuntimeError: it was made before a fork: its connections are those of the parent process.
            ValueError: the client is closed.
        """
        if not self.budget.is_closed:  # one look for both: most calls are made here, and find it open
            return
        if self.is_foreign:
            message = f"the client of {self.target} was made before this process was forked: make one in each process"
            raise RuntimeError(message)
        message = (
            f"the client of {self.target} is closed: make calls before its `with` block ends, or make another client"
        )
        raise ValueError(message)

    def note_fork(self) -> None:
        """Closes it in a process that has been forked: its connections, and gRPC's threads, are the parent's."""
        self.is_foreign = self.is_foreign or not self.budget.is_closed
        self.close()

    def choose_timeout(self, timeout: float | None) -> float | None:
        """Returns the seconds that a call may take, None for ever; `timeout` None: as long as the client's calls."""
        return self._timeout if timeout is None else choose_timeout(timeout)

    def start_call(self, timeout: float | None, options: CallOptions) -> ClientContext:
        """Starts the clock of a call.

        Args:
            timeout: seconds; None: as long as the client's calls.
            options: of the call; what else these hold, as options of a method may, is not looked at.

        Raises:
            ValueError: the timeout, the metadata or the request id is none.
        """
        metadata = self._check_authorization(build_metadata(options)) if options else ()
        if self._read_trace is not None and all(key != TRACE_KEY for key, _ in metadata):
            metadata = (*metadata, *self._read_trace())
        return ClientContext(Deadline(self.choose_timeout(timeout)), metadata)

    def pass_traces_on(self) -> None:
        """Has each call say which trace it belongs to.

        Raises:
            ImportError: OpenTelemetry is not installed.
        """
        self._read_trace = find_trace_reader()

    def describe(self, kind: str) -> str:
        """Returns the representation of a client of this kind: nothing of its credentials or metadata."""
        states = ("TLS" if self.credentials else "", "closed" if self.budget.is_closed else "")
        return f"<{', '.join([f'{kind} of {self.target}', *filter(None, states)])}>"

    def refuse_pickling(self, kind: str) -> TypeError:
        """Returns the error for a client of this kind that is to be pickled or copied."""
        return TypeError(
            f"a {kind} has connections of its process, and cannot be pickled or copied: make one in each process, and "
            f"share it between its threads; this one is {self.describe(kind)}"
        )

    def _check_authorization(self, metadata: CheckedMetadata) -> CheckedMetadata:
        if self._token is not None and any(key == AUTHORIZATION_KEY for key, _ in metadata):
            message = "the metadata hold an authorization, and there is a token besides"
            raise ValueError(message)
        return metadata


_endpoints = WeakSet[Endpoint]()


def _note_fork() -> None:
    for endpoint in _endpoints:
        endpoint.note_fork()


if hasattr(os, "register_at_fork"):  # where there are forks
    os.register_at_fork(after_in_child=_note_fork)


class ChannelSettings(NamedTuple):
    """What a caller wants of a client's channels.

    Attributes:
        options: arguments of the channel, which win over those of this module.
        compression: of what is sent; None: as gRPC has it by default, none.
        interceptors: of grpc or grpc.aio, as the client is.
    """

    options: ChannelOptions
    compression: grpc.Compression | None
    interceptors: Sequence[Any]


def build_channel_options(target: str, own: ChannelOptions = (), *, avoid_unhealthy: bool) -> ChannelOptions:
    """Returns the options of a channel: balancing, reconnection, and no limit of the client's own on messages.

    Args:
        target: as `Client` takes it.
        own: the caller's, which win.
        avoid_unhealthy: turns away from servers that say NOT_SERVING: such a channel cannot ask them for their health.
    """
    config = {**_SERVICE_CONFIG, **(_HEALTH_CONFIG if avoid_unhealthy else {})}
    ours: ChannelOptions = [
        ("grpc.service_config", json.dumps(config)),
        # A server that comes back is found this soon; what it costs meanwhile is a SYN that nobody answers.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 300),
        ("grpc.dns_min_time_between_resolutions_ms", _LOOKUP_INTERVAL_MS),
        ("grpc.keepalive_time_ms", _PING_AFTER_MS),
        ("grpc.keepalive_timeout_ms", _HOST_TIMEOUT_MS),
        ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),  # or there are two, and then one a minute
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # By default http_proxy and its kin speak for every target, and no proxy can reach this machine's own.
        *([("grpc.enable_http_proxy", 0)] if is_local(target) else []),
    ]
    # Each once: which of two values would hold, gRPC does not say.
    return list({**dict(ours), **dict(own)}.items())


def check_settings(
    options: Sequence[tuple[Any, Any]], compression: object, interceptors: Sequence[Any]
) -> ChannelSettings:
    """Returns them where it is safe to give them to grpc, which looks at the interceptors by itself.

    Raises:
        TypeError: the name of an option is no text, its value no integer, text or bytes; or the compression is none.
    """
    checked = tuple(options)  # first: what is read only once would be gone
    for name, value in checked:
        # Of anything else that has an `__int__`, as floats and numpy's integers have, grpcio takes the number for the
        # address of a C object, and the core reads what is there.
        if not isinstance(name, str) or not isinstance(value, int | str | bytes):
            message = f"an option is a name and an integer, a text or bytes, not {(name, value)!r}"
            raise TypeError(message)
    if compression is not None and not isinstance(compression, grpc.Compression):
        message = f"compression is one of grpc.Compression, not {compression!r}"
        raise TypeError(message)
    return ChannelSettings(checked, compression, tuple(interceptors))


def choose_timeout(seconds: float) -> float | None:
    """Returns the seconds that a call may take; None, which grpc takes for "forever", where they are infinite.

    Raises:
        TypeError: they are no number.
        ValueError: they are not above 0.
    """
    _check_number(seconds)
    if not seconds > 0:  # nor is nan
        message = f"timeout is {seconds}; it is in seconds, above 0"
        raise ValueError(message)
    return None if seconds > _FOREVER_SECONDS else seconds


def check_inline_max_bytes(size: int) -> int:
    """Returns `size` where it is a number of bytes.

    Raises:
        TypeError: it is no integer.
    """
    return _read_size(size, "inline_max_bytes")


def check_chunk_bytes(size: int) -> int:
    """Returns `size` where a message can carry so many bytes.

    Raises:
        TypeError: it is no integer.
        ValueError: it cannot.
    """
    _read_size(size, "chunk_bytes")
    if not 1 <= size <= _MAX_CHUNK_BYTES:
        message = f"chunk_bytes is {size}; it lies from 1 to {_MAX_CHUNK_BYTES}"
        raise ValueError(message)
    return size


def _check_credentials(credentials: object) -> None:
    if credentials is not None and not isinstance(credentials, grpc.ChannelCredentials):
        message = f"credentials is {credentials!r}: write credentials=grpc.ssl_channel_credentials() for TLS"
        raise TypeError(message)


def _check_number(seconds: object) -> None:
    if not hasattr(seconds, "__float__"):
        message = f"timeout is {seconds!r}: write seconds as a number; math.inf is without a limit"
        raise TypeError(message)


def _read_size(size: int, name: str) -> int:
    try:
        return index(size)
    except TypeError:
        message = f"{name} is {size!r}: write bytes as an integer, as 4 * 2**20"
        raise TypeError(message) from None
