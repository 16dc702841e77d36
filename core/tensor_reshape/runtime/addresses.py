"""Finds out whether an address in gRPC's notation is local.

The module does not resolve host names. Only the well-known names of the loopback interface count as local host names.
"""

import ipaddress
import re
from urllib.parse import unquote

_LOCAL_SCHEMES = ("unix", "unix-abstract")
_ADDRESS_SCHEMES = ("dns", "ipv4", "ipv6")
_PATH_END = re.compile("[?#]")
_LOCAL_NAMES = ("localhost", "ip6-localhost", "ip6-loopback")


def is_local(target: str) -> bool:
    """Whether every address of `target` is a loopback address, a name of the loopback interface, or a Unix socket.

    Args:
        target: the address that a client calls or a server listens on.
    """
    scheme, separator, rest = target.partition(":")
    if separator and scheme in _LOCAL_SCHEMES:
        return True
    # If the text has no scheme, gRPC reads the whole text as a host.
    has_scheme = bool(separator) and scheme in _ADDRESS_SCHEMES
    addresses = unquote(_read_path(rest)).split(",") if has_scheme else [target]
    return all(_is_loopback(_read_host(address)) for address in addresses)


def _read_path(rest: str) -> str:
    """Returns the path of a URI without scheme, query and fragment."""
    path = rest[2:].partition("/")[2] if rest.startswith("//") else rest.removeprefix("/")
    return _PATH_END.split(path, maxsplit=1)[0]


def _read_host(address: str) -> str:
    """Returns the host of an address such as `host:port` or `[v6]:port`. The address may have no port."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address if address.count(":") > 1 else address.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower().removesuffix(".") in _LOCAL_NAMES
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
