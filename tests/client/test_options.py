"""What a client refuses to be made with, before anything is sent."""

import math

import pytest

from tensor_reshape.client.options import (
    DEFAULT_TIMEOUT_SECONDS,
    Endpoint,
    build_channel_options,
    choose_timeout,
)
from tensor_reshape.client.retries import PATIENCE_SECONDS
from tensor_reshape.server.config import Config
from tensor_reshape.server.transport import options as server_options
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES


@pytest.mark.parametrize("seconds", [0, -1, -math.inf, math.nan])
def test_a_timeout_is_above_0(seconds: float):
    with pytest.raises(ValueError, match="timeout"):
        choose_timeout(seconds)


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 30), (0.5, 0.5), (math.inf, None), (1e300, None)])
def test_a_timeout_is_the_calls_or_the_clients_and_forever_is_none(timeout: float | None, seconds: float | None):
    assert Endpoint("localhost:1", None, (), 30).choose_timeout(timeout) == seconds


def test_what_a_server_may_send_unread_is_fixed():
    options = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    assert options["grpc.http2.bdp_probe"] == 0
    assert DEFAULT_CHUNK_BYTES <= int(options["grpc.http2.lookahead_bytes"]) <= 16 * DEFAULT_CHUNK_BYTES


def test_what_hangs_or_is_cut_off_is_noticed_within_the_default_timeout():
    options = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    silent, host, server = (
        int(options[f"grpc.{name}_ms"]) / 1000 for name in ("keepalive_time", "keepalive_timeout", "http2.ping_timeout")
    )
    assert host < server < silent + server < DEFAULT_TIMEOUT_SECONDS


def test_an_address_is_looked_up_again_while_a_call_has_patience():
    options = dict(build_channel_options("dns:///name:1", avoid_unhealthy=True))
    assert 2 * int(options["grpc.dns_min_time_between_resolutions_ms"]) / 1000 < PATIENCE_SECONDS


def test_a_client_asks_half_as_often_as_a_server_allows():
    client = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    server = dict(server_options.build_options(Config(), 1, shares=False))
    allowed = server["grpc.http2.min_ping_interval_without_data_ms"]
    assert int(client["grpc.keepalive_time_ms"]) >= 2 * allowed
