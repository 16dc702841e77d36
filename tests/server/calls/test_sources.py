"""The source of a call: the name of its connection, and the forwarded address of a proxy."""

import pytest

from tensor_reshape.server.calls.sources import Source, Sources, find_source, is_shared
from tensor_reshape.server.config import Config, ConfigError

PROXY = "ipv4:192.0.2.1:40000"
FORWARDED = (("user-agent", "x"), ("x-forwarded-for", "198.51.100.7"))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.1:1", "ipv4:10.0.0.1"),
        ("ipv6:%5B2001:db8:1:2::1%5D:1", "20010db800010002"),
        ("ipv6:%5B2001:db8:1:2:ffff::9%5D:2", "20010db800010002"),
        ("ipv6:%5B2001:db8:1:3::1%5D:1", "20010db800010003"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", "fe80000000000000"),
        ("ipv6:%5Bno address%5D:1", "ipv6:%5Bno address%5D"),
        ("unix:", "unix:"),
        ("unix:/a:1", "unix:/a:1"),
        ("unix-abstract:a", "unix-abstract:a"),
        ("", ""),
    ],
)
def test_find_address_returns_ipv4_host_ipv6_network_or_socket(peer: str, address: str):
    assert find_source(peer) == Source(address, peer)


@pytest.mark.parametrize(("peer", "shared"), [("unix:", True), ("unix-abstract:a", True), ("ipv4:10.0.0.1:1", False)])
def test_unix_socket_clients_have_one_address(peer: str, shared: bool):
    assert is_shared(peer) == shared


def test_source_is_the_connection_if_no_proxy_is_trusted():
    assert Sources().find(PROXY, FORWARDED) == find_source(PROXY)


def test_source_is_the_forwarded_address_behind_a_trusted_proxy():
    assert Sources(["192.0.2.1"]).find(PROXY, FORWARDED) == Source("ipv4:198.51.100.7", PROXY)


@pytest.mark.parametrize("peer", ["ipv4:192.0.2.2:40000", "ipv6:%5B2001:db8::1%5D:40000", "unix:", "unix:/run/reshape"])
def test_forwarded_header_of_untrusted_connections_is_ignored(peer: str):
    assert Sources(["192.0.2.1"]).find(peer, FORWARDED) == find_source(peer)


@pytest.mark.parametrize(
    ("proxy", "peer"),
    [
        ("192.0.2.0/24", PROXY),
        ("2001:db8::1", "ipv6:%5B2001:db8::1%5D:40000"),
        ("2001:db8:0:0::/64", "ipv6:%5B2001:db8::1%5D:40000"),
        ("fe80::1", "ipv6:%5Bfe80::1%25eth0%5D:40000"),
        ("unix:", "unix:"),
        ("unix:", "unix:/run/reshape"),
    ],
)
def test_trusted_proxies_match_by_address_network_and_unix_socket(proxy: str, peer: str):
    assert Sources(["203.0.113.9", proxy]).find(peer, FORWARDED) == Source("ipv4:198.51.100.7", peer)


def test_trusting_an_ipv6_proxy_does_not_trust_its_network():
    peer = "ipv6:%5B2001:db8::2%5D:40000"
    assert Sources(["2001:db8::1"]).find(peer, FORWARDED) == find_source(peer)


@pytest.mark.parametrize(
    ("values", "address"),
    [
        (["203.0.113.1, 198.51.100.7"], "ipv4:198.51.100.7"),
        (["203.0.113.1", "198.51.100.7"], "ipv4:198.51.100.7"),
        (["198.51.100.7:1234"], "ipv4:198.51.100.7"),
        (["::ffff:198.51.100.7"], "ipv4:198.51.100.7"),
        (["2001:db8:1:2::1"], "20010db800010002"),
        (["[2001:db8:1:2::1]:1234"], "20010db800010002"),
        (["fe80::1%\0"], "fe80000000000000"),
    ],
)
def test_source_is_the_last_address_in_the_forwarded_header(values: list[str], address: str):
    metadata = [("x-forwarded-for", value) for value in values]
    assert Sources(["192.0.2.1"]).find(PROXY, metadata).address == address


@pytest.mark.parametrize("value", ["", "unknown", "198.51.100.7, ", "198.51.100.7 and more", "\xff", "1" * 65])
def test_source_is_the_connection_if_the_forwarded_header_is_invalid(value: str):
    assert Sources(["192.0.2.1"]).find(PROXY, [("x-forwarded-for", value)]) == find_source(PROXY)


def test_source_is_the_proxy_connection_without_a_forwarded_header():
    assert Sources(["192.0.2.1"]).find(PROXY, ()) == find_source(PROXY)


@pytest.mark.parametrize("address", ["", "localhost", "192.0.2.1:80", "192.0.2.0/33", "unix:/run/reshape"])
def test_config_rejects_an_invalid_trusted_proxy(address: str):
    with pytest.raises(ConfigError, match=r"--trusted-proxy is '.*': use an IP address, a network .*, or unix:"):
        Config(trusted_proxy=(address,))
