"""The channel arguments of gRPC's core, which set limits of sizes and timeouts of connections."""

from tensor_reshape.server.config import Config

MAX_METADATA_BYTES = 16 * 1024
"""The limit of the metadata of a call, which is enough for a token and a trace.

The size is that of all names and values, plus 32 bytes for each pair. The default of gRPC's core has the same limit,
but then the core rejects calls above half of the limit at random.
"""

HANDSHAKE_SECONDS = 10.0
"""The timeout of the TLS handshake and of the start of HTTP/2."""

IDLE_SECONDS = 900.0
"""The time after which a connection without a call is closed."""

AGE_GRACE_SECONDS = 6 * 3600.0
"""The time that running calls have to finish when their connection reaches its maximum age.

The largest tensor takes this time at 50 MiB/s. Calls that make no progress are aborted much sooner.
"""

KEEPALIVE_SECONDS = 60.0
"""The time without traffic after which the server pings a connection.

It is shorter than the idle timeout of load balancers, which is some minutes.
"""

_MIN_PING_SECONDS = 5.0  # the shortest interval of client pings; gRPC's own clients wait at least 10 s between pings
# The time that a client has to reply to a ping, as a multiple of KEEPALIVE_SECONDS. gRPC's default of 20 seconds is too
# short. If the process of a client is blocked for a minute (for example by a thread that converts 64 MiB on a busy
# machine), the client replies late, and some clients then fail their next call. A long time costs little,
# because a client that has disappeared only holds its connection. Its calls make no progress and are aborted.
_REPLY_INTERVALS = 5.0
# The number of early pings after which gRPC's core closes the connection. Data from the client resets the count.
_PING_STRIKES = 2
# The flow control window of a stream is the number of bytes that a client may send before the server reads. The core
# accepts the rest of an arriving message, even if it exceeds the window by up to a MiB. So the window only matters
# between two messages. Two or four times this value did not make streams of 16 and 128 MiB faster if the client reads
# on the calling thread (0.9 to 1.0 times as fast), and hardly faster otherwise (1.05 times). The core grants the window
# to each stream of a connection, and no budget counts this memory. 16 connections that each filled the windows of 120
# streams raised the memory of a server from 60 MiB to 280-300 MiB.
_WINDOW_BYTES = 128 * 1024
# The number of calls that may wait in the core, in addition to those that the server has requested
# (`grpc_core.servers`). Above the first number, the core cancels new calls at random. Above the second number, it
# cancels all new calls of all clients. The clients get no error that names the reason. Each waiting call needs some
# kilobytes.
_MAX_PENDING_CALLS, _MOST_PENDING_CALLS = 8192, 16384
# The limit of concurrent streams of a connection. The core announces this limit to clients, but it counts calls until
# they are freed ("grpc.http.overload_protection"). A finished call is freed when its last event is taken from the
# queue, and the client's next call may arrive before that. The count can therefore be twice the number of open calls,
# and a client can only use half of this limit without UNAVAILABLE. With a limit of 64, 64 clients lost 40 % of their
# calls. Without the overload protection no calls are lost, but a flood of resets on 16 connections makes a call take
# 10 s.
_MAX_STREAMS_PER_CONNECTION = 128
# The core decompresses a message on the thread that reads connections, before the message reaches this server and its
# memory budget. 16 KiB of gzip can become the largest message. When four connections sent only such messages, 250 KB/s
# together, the median of a small call rose from 8 ms to 0.4 s. When these messages were health checks, they took
# another 240 MiB. Decompression is therefore off, and compressed calls are rejected.
_NO_COMPRESSION = 1 << 0  # a bit set of encodings, in which only the bit for uncompressed messages is set


def build_options(config: Config, max_connections: int, *, shares: bool) -> list[tuple[str, int]]:
    """Returns the channel arguments of a server.

    Args:
        config: the configuration.
        max_connections: the number of connections that each listener accepts.
        shares: whether other processes listen on the same ports.
    """
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # no limit here, because the service limits outputs with a clear error
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        ("grpc.server.max_pending_requests", _MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING_CALLS),
        # The window is fixed, because clients could increase the memory of a window that follows the bandwidth.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.compression_enabled_algorithms_bitset", _NO_COMPRESSION),
        ("grpc.enable_channelz", 0),  # the default is 1, which costs memory and time
        ("grpc.so_reuseport", int(shares)),  # the default is 1, with which a second server would share the port
        ("grpc.max_allowed_incoming_connections", max_connections),
        # Both limits have the same value, because the core would reject calls between them at random.
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        *_limit_connections(config),
    ]


def _limit_connections(config: Config) -> list[tuple[str, int]]:
    reply_milliseconds = _count_milliseconds(_REPLY_INTERVALS * KEEPALIVE_SECONDS)
    options = [
        ("grpc.server_handshake_timeout_ms", _count_milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.http2.settings_timeout", reply_milliseconds),  # the time for acknowledging the HTTP/2 settings
        ("grpc.max_connection_idle_ms", _count_milliseconds(IDLE_SECONDS)),
        ("grpc.keepalive_time_ms", _count_milliseconds(KEEPALIVE_SECONDS)),
        ("grpc.keepalive_timeout_ms", reply_milliseconds),
        # The default is one minute, even if the keepalive timeout is longer.
        ("grpc.http2.ping_timeout_ms", reply_milliseconds),
        # These options detect a client that has disappeared, even if it has no running call.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may also ping. If a client pings too often, the connection is closed.
        ("grpc.http2.min_ping_interval_without_data_ms", _count_milliseconds(_MIN_PING_SECONDS)),
        ("grpc.http2.max_ping_strikes", _PING_STRIKES),
    ]
    return [*options, *_limit_age(config)] if config.max_connection_age_seconds else options


def _limit_age(config: Config) -> list[tuple[str, int]]:
    return [
        ("grpc.max_connection_age_ms", _count_milliseconds(config.max_connection_age_seconds)),
        ("grpc.max_connection_age_grace_ms", _count_milliseconds(AGE_GRACE_SECONDS)),
    ]


def _count_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
