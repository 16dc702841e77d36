"""Channel arguments of gRPC's core: size limits and timeouts of connections."""

from tensor_reshape.server.config import Config

MAX_METADATA_BYTES = 16 * 1024
"""Limit of the metadata of a call: names, values, and 32 bytes for each pair. A token and a trace fit.

gRPC's core has the same default, but rejects calls above half of it at random.
"""

HANDSHAKE_SECONDS = 10.0
"""Timeout of the TLS handshake and of the start of HTTP/2."""

IDLE_SECONDS = 900.0
"""Connections without a call are closed after this time."""

AGE_GRACE_SECONDS = 6 * 3600.0
"""Time that running calls have to finish when their connection reaches its maximum age.

The largest tensor needs so long at 50 MiB/s. Calls that make no progress are aborted much sooner.
"""

KEEPALIVE_SECONDS = 60.0
"""Time without traffic after which a connection is pinged. Load balancers keep idle connections for minutes."""

_MIN_PING_SECONDS = 5.0  # shortest interval of client pings; gRPC's own clients ping every ten seconds at most
# The time that a client has to reply to a ping, as a multiple of KEEPALIVE_SECONDS. gRPC's default of 20 seconds is too
# short: if the process of a client is blocked for a minute (for example one thread that converts 64 MiB on a busy
# machine), it replies late, and some clients then fail their next call. A client that has disappeared holds only its
# connection in this time, because calls without progress are aborted.
_PATIENCE = 5.0
# Number of early pings after which gRPC's core closes the connection. Data from the client resets the count.
_PING_STRIKES = 2
# Flow control window of a stream: bytes that a client may send before the server reads. The core lets the rest of a
# message that is arriving exceed it by up to a MiB, so the window only matters between two messages. With two or four
# times this value, streams of 16 and 128 MiB were not faster if the client's thread reads by itself (0.9 to 1.0 times),
# and hardly faster otherwise (1.05). The core grants the window to each stream of a connection, and no budget counts
# it: 16 connections that sent ahead on 120 streams each raised a server's memory from 60 MiB to 280-300 MiB.
_WINDOW_BYTES = 128 * 1024
# Calls that wait in the core, in addition to those that were requested (`grpc_core.servers`). Above the first number
# the core cancels new calls at random, above the second it cancels all, of any client and without an error that says
# so. Each waiting call needs some kilobytes.
_MAX_PENDING_CALLS, _MOST_PENDING_CALLS = 8192, 16384
# Limit of concurrent streams of a connection. The core announces it to clients, but it counts calls until they are
# freed ("grpc.http.overload_protection"). A finished call is freed when its last event is taken from the queue, and the
# client's next call may arrive before that. The count can therefore be twice the number of open calls, and a client can
# use half of this limit without UNAVAILABLE. With a limit of 64, 64 clients lost 40 % of their calls. Without the
# protection no calls are lost, but a flood of resets on 16 connections makes a call take 10 s.
_MAX_STREAMS_PER_CONNECTION = 128
# The core decompresses a message on the thread that reads connections, before this server sees it and without counting
# it in a budget. 16 KiB of gzip can become the largest message. With four connections that sent only such messages,
# 250 KB/s together, the median of a small call rose from 8 ms to 0.4 s, and as health checks they took 240 MiB more.
# Decompression is therefore off, and compressed calls are rejected.
_NO_COMPRESSION = 1 << 0  # the only bit that is set stands for uncompressed messages


def build_options(config: Config, max_connections: int, *, shares: bool) -> list[tuple[str, int]]:
    """Returns the channel arguments of a server.

    Args:
        config: the configuration.
        max_connections: connections that each listener accepts.
        shares: whether other processes listen on the same ports.
    """
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # the service limits its outputs itself, with a clear error
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        ("grpc.server.max_pending_requests", _MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING_CALLS),
        # Fixed, because a window that follows the bandwidth would let clients choose its memory.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.compression_enabled_algorithms_bitset", _NO_COMPRESSION),
        ("grpc.enable_channelz", 0),  # on by default in the core, which costs memory and time
        ("grpc.so_reuseport", int(shares)),  # on by default in the core: a second server would share the port silently
        ("grpc.max_allowed_incoming_connections", max_connections),
        # Both have the same value, because the core rejects calls between the two at random.
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        *_limit_connections(config),
    ]


def _limit_connections(config: Config) -> list[tuple[str, int]]:
    reply_milliseconds = _count_milliseconds(_PATIENCE * KEEPALIVE_SECONDS)
    options = [
        ("grpc.server_handshake_timeout_ms", _count_milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.http2.settings_timeout", reply_milliseconds),  # for the client's acknowledgement of the HTTP/2 settings
        ("grpc.max_connection_idle_ms", _count_milliseconds(IDLE_SECONDS)),
        ("grpc.keepalive_time_ms", _count_milliseconds(KEEPALIVE_SECONDS)),
        ("grpc.keepalive_timeout_ms", reply_milliseconds),
        ("grpc.http2.ping_timeout_ms", reply_milliseconds),  # otherwise a minute, whatever the keepalive timeout is
        # Detects a client that has disappeared, also when it has no running call.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may ping, too; a flood of pings closes the connection.
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
