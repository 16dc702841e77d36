"""The source of a call, which is the address and the connection of its client.

- gRPC names connections `ipv4:HOST:PORT`, `ipv6:%5BHOST%5D:PORT`, or `unix:` with or without a path.
- If a trusted proxy (`--trusted-proxy`) forwards a call, the address comes from the header `x-forwarded-for`. The
  trusted proxy wrote only the last address in `x-forwarded-for`. Earlier addresses in this header came from the client
  and are ignored. In calls that do not come from a trusted proxy, `x-forwarded-for` is ignored.
"""

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

from tensor_reshape.server.calls.call_info import Metadata

FORWARDED_KEY = "x-forwarded-for"
"""The metadata key of the header in which proxies report the client's address."""

UNIX = "unix:"
"""The value of `--trusted-proxy` for proxies that connect through a unix socket."""

_MAX_ADDRESS_CHARACTERS = 64


class Source(NamedTuple):
    """The client of a call.

    Attributes:
        address: the address of the client.
        connection: gRPC's name of the connection.
    """

    address: str
    connection: str


@lru_cache(maxsize=8192)
def find_source(peer: str) -> Source:
    """Returns the source of the calls on a connection. Results are cached, because every call needs its source."""
    return Source(find_address(peer), peer)


def is_shared(peer: str) -> bool:
    """Whether a connection name belongs to a unix socket.

    All clients of a unix socket have the same connection name.
    """
    return peer.startswith("unix")


def find_address(peer: str) -> str:
    """Returns the address in a connection name.

    For an IPv6 connection, the result is the /64 network, which usually has only one owner.
    """
    if is_shared(peer):
        return peer
    host = _find_host(peer)
    return peer.rpartition(":")[0] if host is None else _name(host)


class Sources:
    """Determines the source of each call.

    If a trusted proxy forwarded the call, the source is the client behind the proxy.
    """

    def __init__(self, proxies: Iterable[str] = ()) -> None:
        """Trusts `proxies`, which are IP addresses, networks or `UNIX`."""
        named = tuple(proxies)
        self._trusts_unix = UNIX in named
        self._networks = tuple(ip_network(proxy, strict=False) for proxy in named if proxy != UNIX)
        self.has_proxies = bool(named)

    def find(self, peer: str, metadata: Metadata) -> Source:
        """Returns the source of a call with this connection name and metadata."""
        source = find_source(peer)
        if not self.has_proxies or not self._is_proxy(peer):
            return source
        value = str(next((value for name, value in reversed(metadata) if name == FORWARDED_KEY), ""))
        last = value.rpartition(",")[2].strip()
        # Some proxies add the port to the address.
        host = _read_address(last) or _read_address(last.rpartition(":")[0].strip("[]"))
        return source if host is None else Source(_name(host), peer)

    def _is_proxy(self, peer: str) -> bool:
        host = _find_host(peer)
        return self._trusts_unix if is_shared(peer) else any(host in network for network in self._networks if host)


def _find_host(peer: str) -> IPv4Address | IPv6Address | None:
    kind, _, rest = peer.partition(":")
    host = rest.rpartition(":")[0]
    if kind == "ipv6":
        host = host.removeprefix("%5B").removesuffix("%5D").partition("%25")[0]
    return _read_address(host)


def _name(host: IPv4Address | IPv6Address) -> str:
    return f"ipv4:{host}" if isinstance(host, IPv4Address) else host.packed[:8].hex()


def _read_address(text: str) -> IPv4Address | IPv6Address | None:
    # A header value can have thousands of characters. A text that is too long for an address must not fill the cache of
    # addresses.
    return _parse_address(text) if len(text) <= _MAX_ADDRESS_CHARACTERS else None


@lru_cache(maxsize=8192)  # parsing the two addresses of a forwarded call took 5 to 12 us without this cache
def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
