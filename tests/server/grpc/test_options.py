"""The options of gRPC's core for connections."""

from dataclasses import replace

import pytest

from tensor_reshape.server.config import MEMORY_BUDGET_BYTES, Config
from tensor_reshape.server.grpc.options import MAX_METADATA_BYTES, build_options

STOCK_PING_MS = 10_000  # the shortest ping interval of a stock client (gRFC A8)
CALLERS = 64  # callers of one connection; each may have a call that is not freed yet, and an open one


def build(config: Config | None = None, *, shares: bool = False) -> dict[str, int]:
    return dict(build_options(config or Config(), 7, shares=shares))


def test_server_channel_options_have_unique_names():
    options = build_options(replace(Config(), max_connection_age_seconds=5.0), 7, shares=False)
    assert len({name for name, _ in options}) == len(options)


def test_server_disables_channelz_and_compression():
    options = build()
    assert (options["grpc.enable_channelz"], options["grpc.compression_enabled_algorithms_bitset"]) == (0, 1)


def test_server_message_size_limit_applies_only_to_requests():
    options = build(Config(max_message_bytes=4096))
    assert options["grpc.max_receive_message_length"] == 4096
    assert options["grpc.max_send_message_length"] == -1


@pytest.mark.parametrize("shares", [False, True])
def test_server_port_is_shared_only_when_requested(shares: bool):
    assert build(shares=shares)["grpc.so_reuseport"] == shares


def test_server_channel_options_limit_connections_and_their_calls():
    options = build()
    assert options["grpc.max_allowed_incoming_connections"] == 7
    assert options["grpc.max_concurrent_streams"] == 2 * CALLERS
    assert options["grpc.server.max_pending_requests"] < options["grpc.server.max_pending_requests_hard_limit"]


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, None), (2.5, 2500)])
def test_max_connection_age_is_set_only_when_configured(seconds: float, milliseconds: int | None):
    assert build(Config(max_connection_age_seconds=seconds)).get("grpc.max_connection_age_ms") == milliseconds


def test_grpc_metadata_soft_and_hard_limits_are_equal():
    options = build()
    assert options["grpc.max_metadata_size"] == options["grpc.absolute_max_metadata_size"] == MAX_METADATA_BYTES


def test_grpcio_client_may_ping_at_its_shortest_interval():
    assert build()["grpc.http2.min_ping_interval_without_data_ms"] < STOCK_PING_MS


def test_server_ping_timeout_is_five_times_the_keepalive_interval():
    options = build()
    names = ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms", "grpc.http2.settings_timeout")
    assert [options[name] for name in names] == [5 * options["grpc.keepalive_time_ms"]] * 3


def test_server_flow_control_window_is_fixed_and_small():
    options = build()
    assert options["grpc.http2.bdp_probe"] == 0
    unread_bytes = options["grpc.http2.lookahead_bytes"] * options["grpc.max_concurrent_streams"]
    assert 16 * unread_bytes <= MEMORY_BUDGET_BYTES / 4
