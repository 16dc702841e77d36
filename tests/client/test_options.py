"""What a client refuses to be made with, before anything is sent."""

import math

import pytest

from tensor_reshape.client.options import (
    build_channel_options,
    check_metadata,
    check_timeout,
    choose_timeout,
    is_local,
)
from tensor_reshape.wire.streams import DEFAULT_CHUNK_BYTES


@pytest.mark.parametrize("seconds", [0, -1, -math.inf, math.nan])
def test_a_timeout_is_above_0(seconds: float):
    with pytest.raises(ValueError, match="timeout"):
        check_timeout(seconds)


@pytest.mark.parametrize(("timeout", "seconds"), [(None, 30), (0.5, 0.5), (math.inf, None), (1e300, None)])
def test_a_timeout_is_the_calls_or_the_clients_and_forever_is_none(timeout: float | None, seconds: float | None):
    assert choose_timeout(timeout, 30) == seconds


@pytest.mark.parametrize(
    "pair", [("Bad Key", "x"), ("", "x"), ("key", "a\nb"), ("key", b"x"), ("key-bin", "x"), ("key", "\u00e4")], ids=str
)
def test_metadata_that_grpc_cannot_send_is_refused(pair: tuple[str, str | bytes]):
    with pytest.raises(ValueError, match="metadata"):
        check_metadata([pair])


def test_metadata_that_grpc_can_send_are_kept():
    pairs = (("x-key", "value, with more"), ("trace-bin", b"\x00\xff"))
    assert check_metadata(pairs) == pairs


LOCAL = [
    "localhost",
    "localhost:50051",
    "LocalHost.:50051",
    "127.0.0.1:50051",
    "127.8.9.1:50051",
    "[::1]:50051",
    "::1",
    "[::ffff:127.0.0.1]:1",
    "dns:localhost:1",
    "dns:///localhost:50051",
    "dns:///[::1]:50051",
    "dns://8.8.8.8/localhost:50051",
    "ipv4:127.0.0.1:1,127.0.0.2:2",
    "ipv6:[::1]:1",
    "ipv6:%5B::1%5D:1",
    "unix:/run/server.sock",
    "unix:///run/server.sock",
    "unix:server.sock",
    "unix-abstract:server",
]
REMOTE = [
    "reshape.example",
    "reshape.example:50051",
    "localhost.example:50051",
    "10.0.0.1:50051",
    "0.0.0.0:50051",
    "[fe80::1]:50051",
    "[::ffff:10.0.0.1]:1",
    "dns:///reshape.example:50051",
    "dns://127.0.0.1/reshape.example:50051",
    "ipv4:127.0.0.1:1,10.0.0.1:2",
    "xds:///localhost",
    "",
]


@pytest.mark.parametrize("target", LOCAL)
def test_loopback_addresses_and_sockets_are_of_this_machine(target: str):
    assert is_local(target)


@pytest.mark.parametrize("target", REMOTE)
def test_other_targets_are_not(target: str):
    assert not is_local(target)


def test_what_a_server_may_send_unread_is_fixed():
    options = dict(build_channel_options("localhost:1", avoid_unhealthy=True))
    assert options["grpc.http2.bdp_probe"] == 0
    assert DEFAULT_CHUNK_BYTES <= int(options["grpc.http2.lookahead_bytes"]) <= 16 * DEFAULT_CHUNK_BYTES
