"""What gRPC's core is told of connections."""

from dataclasses import replace

import pytest

from tensor_reshape.server.config import Config
from tensor_reshape.server.settings.bounds import MEMORY_BUDGET_BYTES
from tensor_reshape.server.transport.options import MAX_METADATA_BYTES, build_options

STOCK_PING_MS = 10_000  # a stock client that is told to ping more often pings this often (gRFC A8)
CALLERS = 64  # of one connection: each may have a call that has not been freed beside the one that is open


def build(config: Config | None = None, *, shares: bool = False) -> dict[str, int]:
    return dict(build_options(config or Config(), 7, shares=shares))


def test_no_option_is_given_twice():
    options = build_options(replace(Config(), max_connection_age_seconds=5.0), 7, shares=False)
    assert len({name for name, _ in options}) == len(options)


@pytest.mark.parametrize("channelz", [False, True])
def test_the_core_keeps_what_channelz_tells_only_where_it_is_served(channelz: bool):
    assert build(Config(channelz=channelz))["grpc.enable_channelz"] == channelz


def test_a_message_may_be_as_large_as_is_configured_and_an_answer_as_it_is():
    options = build(Config(max_message_bytes=4096))
    assert options["grpc.max_receive_message_length"] == 4096
    assert options["grpc.max_send_message_length"] == -1


@pytest.mark.parametrize("shares", [False, True])
def test_a_port_is_shared_only_where_that_is_meant(shares: bool):
    assert build(shares=shares)["grpc.so_reuseport"] == shares


def test_connections_and_their_calls_are_bounded():
    options = build()
    assert options["grpc.max_allowed_incoming_connections"] == 7
    assert options["grpc.max_concurrent_streams"] == 2 * CALLERS
    assert options["grpc.server.max_pending_requests"] < options["grpc.server.max_pending_requests_hard_limit"]


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.0, None), (2.5, 2500)])
def test_connections_have_an_age_where_one_is_configured(seconds: float, milliseconds: int | None):
    assert build(Config(max_connection_age_seconds=seconds)).get("grpc.max_connection_age_ms") == milliseconds


def test_metadata_have_one_limit_and_none_below_it_that_is_left_to_chance():
    options = build()
    assert options["grpc.max_metadata_size"] == options["grpc.absolute_max_metadata_size"] == MAX_METADATA_BYTES


def test_a_stock_client_may_ping_at_its_shortest_interval():
    assert build()["grpc.http2.min_ping_interval_without_data_ms"] < STOCK_PING_MS


def test_a_peer_that_is_held_up_has_five_times_as_long_to_answer_as_it_may_be_silent():
    options = build()
    names = ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms", "grpc.http2.settings_timeout")
    assert [options[name] for name in names] == [5 * options["grpc.keepalive_time_ms"]] * 3


def test_what_a_connection_may_send_unread_is_fixed_and_small_beside_the_budget():
    options = build()
    assert options["grpc.http2.bdp_probe"] == 0
    unread_bytes = options["grpc.http2.lookahead_bytes"] * options["grpc.max_concurrent_streams"]
    assert 16 * unread_bytes <= MEMORY_BUDGET_BYTES / 4
