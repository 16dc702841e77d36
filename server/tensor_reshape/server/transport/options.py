"""What gRPC's core is told of the server's connections: what they may take, and how long."""

from tensor_reshape.server.config import Config

MAX_METADATA_BYTES = 16 * 1024
"""What the metadata of a call may take: names, values, and 32 bytes for each pair. A token and a trace fit.

gRPC's core takes as much by default, and refuses some calls above half of it by chance.
"""

HANDSHAKE_SECONDS = 10.0
"""How long a connection may take until it speaks HTTP/2, and TLS if that is served."""

IDLE_SECONDS = 900.0
"""How long a connection may have no call."""

AGE_GRACE_SECONDS = 6 * 3600.0
"""How long calls may go on when their connection is as old as it may be: as the largest tensor takes at 50 MiB/s.

Calls that make no progress are given up much sooner.
"""

KEEPALIVE_SECONDS = 60.0
"""How long a connection may be silent until it is pinged. Load balancers keep silent connections for minutes."""

_MIN_PING_SECONDS = 5.0  # between two pings of a client: gRPC's own clients ping every ten seconds at most
# How long a connection that is pinged may take to answer, in times of how long it may be silent. Not the 20 seconds of
# gRPC, which pings after two hours: a polite client whose process is held up for a minute (one thread that converts 64
# MiB on a busy machine) answers late, and some clients fail the call that they make next. A client that is gone holds
# no more than a connection meanwhile: calls without progress are given up.
_PATIENCE = 5.0
# How many pings too soon gRPC's core forgives until it closes the connection; what it sends meanwhile starts it anew.
_PING_STRIKES = 2
# What a caller may send on a stream before it is asked for. The core lets the rest of a message that is on its way come
# besides, up to a MiB, so this matters between two messages alone: with twice or four times of it, streams of 16 and
# 128 MiB were no faster where the client's thread reads by itself (0.9 to 1.0), and hardly where it does not (1.05).
# But the core allows it to each stream of a connection, read or not, and no budget counts it: 16 connections that send
# ahead on 120 streams each made a server of 60 MiB one of 280 to 300; with 60 streams and twice of it, as much.
_WINDOW_BYTES = 128 * 1024
# Calls that wait in the core, besides those that it was asked for (`grpc_core.servers`). Above the first number the
# core cancels some of those that come, by chance, above the second all: whoever they are, without a refusal that says
# so. Each takes some kilobytes.
_MAX_PENDING_CALLS, _MOST_PENDING_CALLS = 8192, 16384
# The core announces this, and clients keep to it; but what it counts, and refuses above this, are calls that have not
# been freed ("grpc.http.overload_protection"). One that was answered is freed once its last event was taken from the
# queue, where the next call of its caller comes behind it: so there may be twice as many as a client has open. Half of
# this number is what a client can have on one connection without UNAVAILABLE. It was 64: of 64 callers, 40 % of the
# calls were lost. Without the protection none are, but a flood of resets on 16 connections makes a call take 10 s.
_MAX_STREAMS_PER_CONNECTION = 128
# The core unpacks a message before anybody here sees it, on the thread that reads connections; and of health and
# reflection, which look at a message's size first, in no budget. 16 KiB of gzip become the largest message: beside four
# connections that sent nothing else, 250 KB/s in all, a small call took 0.4 s at the median and not 8 ms; as health
# checks they took 240 MiB besides. So unless it is asked for nothing is unpacked, and the call is refused.
_NO_COMPRESSION, _ANY_COMPRESSION = 1 << 0, 1 << 0 | 1 << 1 | 1 << 2  # bits for none, deflate and gzip


def build_options(config: Config, max_connections: int, *, shares: bool) -> list[tuple[str, int]]:
    """Returns the arguments of a server.

    Args:
        config: what is served.
        max_connections: how many connections each listener takes.
        shares: whether other processes listen on the same ports.
    """
    return [
        ("grpc.max_receive_message_length", config.max_message_bytes),
        ("grpc.max_send_message_length", -1),  # an output is bounded by the limits, with a refusal that says so
        ("grpc.max_concurrent_streams", _MAX_STREAMS_PER_CONNECTION),
        ("grpc.server.max_pending_requests", _MAX_PENDING_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", _MOST_PENDING_CALLS),
        # Fixed: one that follows the bandwidth would let callers choose what it costs.
        ("grpc.http2.lookahead_bytes", _WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),
        ("grpc.compression_enabled_algorithms_bitset", _ANY_COMPRESSION if config.compression else _NO_COMPRESSION),
        ("grpc.enable_channelz", int(config.channelz)),  # the core's default is to keep what nobody could ask for
        ("grpc.so_reuseport", int(shares)),  # unasked, a second server would take every other connection
        ("grpc.max_allowed_incoming_connections", max_connections),
        # Both the same: between the two, gRPC's core refuses calls by chance.
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        *_limit_connections(config),
    ]


def _limit_connections(config: Config) -> list[tuple[str, int]]:
    sign_of_life = _count_milliseconds(_PATIENCE * KEEPALIVE_SECONDS)
    options = [
        ("grpc.server_handshake_timeout_ms", _count_milliseconds(HANDSHAKE_SECONDS)),
        ("grpc.http2.settings_timeout", sign_of_life),  # to acknowledge them: it speaks HTTP/2, and may be held up
        ("grpc.max_connection_idle_ms", _count_milliseconds(IDLE_SECONDS)),
        ("grpc.keepalive_time_ms", _count_milliseconds(KEEPALIVE_SECONDS)),
        ("grpc.keepalive_timeout_ms", sign_of_life),
        ("grpc.http2.ping_timeout_ms", sign_of_life),  # a minute otherwise, whatever the other one is
        # A peer that is gone without a word is found also when it has no call under way.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # Clients may ask as well; a flood of pings ends.
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
