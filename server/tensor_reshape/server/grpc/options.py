"""The channel arguments and the TLS credentials for gRPC's core. The arguments set size limits and connection timeouts.

The credentials are made from the current certificates of `security.certificates`. Before each handshake, gRPC's core
requests new credentials on its own thread. This request never waits, because the new credentials are already in memory.
When the certificate changes, open connections keep their previous credentials.
"""

from typing import Any

import grpc

from tensor_reshape.server.config import Config
from tensor_reshape.server.security.certificates import Certificates, TlsContents

MAX_METADATA_BYTES = 16 * 1024
"""The maximum size of a call's metadata in bytes. It is enough for a token and a trace context.

The size is the length of all names and values, plus 32 bytes for each pair. gRPC's core has the same limit by default,
but then it rejects calls above half of the limit at random.
"""

HANDSHAKE_SECONDS = 10.0
"""The timeout of the TLS handshake and of the start of HTTP/2, in seconds."""

IDLE_SECONDS = 900.0
"""The time in seconds after which a connection without a call is closed."""

AGE_GRACE_SECONDS = 6 * 3600.0
"""The time in seconds that running calls have to finish when their connection reaches its maximum age.

Sending the largest tensor at 50 MiB/s takes this time. Calls that make no progress are aborted much sooner.
"""

KEEPALIVE_SECONDS = 60.0
"""The time in seconds without traffic after which the server pings a connection.

This time is shorter than the idle timeout of load balancers, which is some minutes.
"""

# Pings of a client must be at least this number of seconds apart. gRPC's own clients wait at least 10 s.
_MIN_PING_SECONDS = 5.0
# A client may take 5 times KEEPALIVE_SECONDS to reply to a ping of the server. gRPC's default of 20 seconds is too
# short. A client process may be blocked for a minute, for example by a thread that converts 64 MiB on a busy machine. A
# blocked client replies late. With gRPC's default, the next call of some clients then failed. A longer wait for the
# reply costs little, because a client that has disappeared only holds its connection. The calls of this client make no
# progress and are aborted.
_REPLY_INTERVALS = 5.0
# After this number of pings that arrive too early, gRPC's core closes the connection. Data from the client resets the
# count of early pings.
_PING_STRIKES = 2
# The HTTP/2 flow control window of a stream is the number of bytes that a client may send before the server reads them.
# gRPC's core accepts the rest of an arriving message, even if the rest exceeds the window by up to a MiB. The flow
# control window therefore matters only between two messages. In a measurement with streams of 16 and 128 MiB, windows
# two or four times as large did not help clients that read on the calling thread (0.9 to 1.0 times as fast). Streams of
# other clients were hardly faster (1.05 times). Each stream of a connection has its own window, and the server's memory
# budget does not include the memory for windows. In a test, each of 16 connections filled the windows of 120 streams.
# The memory of the server rose from 60 MiB to 280-300 MiB.
_WINDOW_BYTES = 128 * 1024
# These numbers limit the calls that wait in gRPC's core, in addition to the calls that the server has requested
# (`grpc.servers`). If more than 8192 calls wait, gRPC's core cancels new calls at random. If more than 16384 calls
# wait, gRPC's core cancels all new calls of all clients. The client of a cancelled call gets no error that names the
# reason. Each waiting call needs some kilobytes of memory.
_MAX_PENDING_CALLS, _MOST_PENDING_CALLS = 8192, 16384
# This number limits the concurrent HTTP/2 streams of a connection. gRPC's core announces the limit to clients, but
# counts a call until its memory is freed ("grpc.http.overload_protection"). A finished call is freed when the server
# takes its last event from the queue, and the client's next call may arrive earlier. The core may therefore count twice
# as many calls as are open, and a client that uses more than half of the limit may get UNAVAILABLE. In a test with a
# limit of 64, 64 clients lost 40 % of their calls. Without the overload protection no calls are lost, but a flood of
# resets on 16 connections makes a call take 10 s.
_MAX_STREAMS_PER_CONNECTION = 128
# gRPC's core decompresses a message on the thread that reads connections, before the message reaches this server and
# its memory budget. A gzip message of 16 KiB can become as large as the largest allowed message. In a test, four
# connections together sent 250 KB/s of gzip messages, and the median duration of a small call rose from 8 ms to 0.4 s.
# If the gzip messages were health checks, the server also needed 240 MiB more memory. Decompression is therefore off,
# and compressed calls are rejected.
_NO_COMPRESSION = 1 << 0  # in this bit set of encodings, only the bit for uncompressed messages is set


def build_options(config: Config, max_connections: int, *, shares: bool) -> list[tuple[str, int]]:
    """Returns the channel arguments of a server.

    Args:
        config: the configuration.
        max_connections: the number of connections that each listener accepts.
        shares: whether other processes listen on the same ports.
    """
    reply_milliseconds = _count_milliseconds(_REPLY_INTERVALS * KEEPALIVE_SECONDS)
    options = [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        # Responses have no limit in gRPC, because the service limits outputs with a clear error.
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        ("grpc.server.max_pending_requests", _MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING_CALLS),
        # The flow control window has a fixed size. If the window size followed the bandwidth, clients could increase
        # the memory for windows.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.compression_enabled_algorithms_bitset", _NO_COMPRESSION),
        ("grpc.enable_channelz", 0),  # channelz is off, although it is on by default, because it costs memory and time
        ("grpc.so_reuseport", int(shares)),  # with gRPC's default of 1, a second server could listen on the same port
        ("grpc.max_allowed_incoming_connections", max_connections),
        # The soft and the hard limit of metadata are equal, because gRPC's core randomly rejects calls between the two
        # limits.
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.server_handshake_timeout_ms", _count_milliseconds(HANDSHAKE_SECONDS)),
        # A client must acknowledge the HTTP/2 settings within this time.
        ("grpc.http2.settings_timeout", reply_milliseconds),
        ("grpc.max_connection_idle_ms", _count_milliseconds(IDLE_SECONDS)),
        ("grpc.keepalive_time_ms", _count_milliseconds(KEEPALIVE_SECONDS)),
        ("grpc.keepalive_timeout_ms", reply_milliseconds),
        # Without this option, the ping timeout is one minute, even if the keepalive timeout is longer.
        ("grpc.http2.ping_timeout_ms", reply_milliseconds),
        # With these two options, the server sends pings even if the client has no running call, so that it detects
        # clients that have disappeared.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may also send pings. If a client sends pings too often, the connection is closed.
        ("grpc.http2.min_ping_interval_without_data_ms", _count_milliseconds(_MIN_PING_SECONDS)),
        ("grpc.http2.max_ping_strikes", _PING_STRIKES),
    ]
    if config.max_connection_age_seconds:
        options += [
            ("grpc.max_connection_age_ms", _count_milliseconds(config.max_connection_age_seconds)),
            ("grpc.max_connection_age_grace_ms", _count_milliseconds(AGE_GRACE_SECONDS)),
        ]
    return options


def _count_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def build_credentials(certificates: Certificates | None) -> grpc.ServerCredentials | None:
    """Returns TLS credentials for one address, or None for plain text.

    Each address needs its own credentials object. If two addresses shared one object, only one of them would receive
    changed certificates.
    """
    if certificates is None:
        return None
    fetched = certificates.value

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        # gRPC's core calls `fetch` while it holds a lock. If `fetch` returns None, gRPC's core continues to use its
        # current credentials.
        nonlocal fetched
        if fetched is certificates.value:
            return None
        fetched = certificates.value
        return _configure(fetched)

    untyped: Any = fetch  # grpcio's type stubs do not allow None
    return grpc.dynamic_ssl_server_credentials(_configure(fetched), untyped, fetched.client_ca is not None)


def _configure(contents: TlsContents) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(contents.key, contents.chain)], contents.client_ca)
