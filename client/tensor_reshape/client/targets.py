"""Targets of clients: the addresses of servers in the notation of gRPC.

Law: what gRPC would take for something else is refused. It looks a host without a port up for HTTPS, and takes
`http://host:1` for the name of a host; either ends as a call that finds no server.
"""

import re

_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")
_URL = re.compile(r"[a-zA-Z][\w+.-]*://(.*?)/*")
_ADDRESS = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]\s]+):(\d+)")
_IPV6 = re.compile(r"[0-9a-fA-F:.]*(%.*)?")
_MAX_PORT = 65535


def check_target(target: object) -> str:
    """Returns the target of a client where gRPC takes it for one.

    Raises:
        TypeError: it is no text.
        ValueError: it is no `host:port`, and of no scheme that gRPC knows.
    """
    if not isinstance(target, str):
        message = f"target is {target!r}: write {_suggest(target)}"
        raise TypeError(message)
    found = _ADDRESS.fullmatch(target)
    if target.startswith(_SCHEMES) or (found and 0 < int(found[2]) <= _MAX_PORT):
        return target
    message = f"target is {target!r}; it is host:port, dns:///host:port or unix:PATH: {_explain(target)}"
    raise ValueError(message)


def _explain(target: str) -> str:
    """Says what is wrong about an address, and what to write."""
    url = _URL.fullmatch(target)
    if url is not None:
        return f"without the scheme, {url[1]!r}; for TLS there is credentials=grpc.ssl_channel_credentials()"
    if target.isdecimal():
        return f"write 'localhost:{target}'"
    host, _, port = target.rpartition(":")
    if ":" in host and _IPV6.fullmatch(host):
        return f"an IPv6 address stands in brackets: '[{host}]:{port}'"
    if target.startswith(":"):
        return f"write 'localhost{target}'"
    if ":" not in target:
        return f"it has no port: write '{target or 'localhost'}:50051'"
    return "a port is from 1 to 65535, and nothing follows it"


def _suggest(target: object) -> str:
    match target:
        case int() if not isinstance(target, bool):
            return f"'localhost:{target}'"
        case (str(host), int(port)):
            return f"'{host}:{port}'"
        case _:
            return "a text, as 'localhost:50051'"
