"""A target is a server address in gRPC's notation that is given to a client.

Invariant: a target that gRPC would misunderstand is rejected. For example, gRPC uses port 443 if the address has no
port, and treats `http://host:1` as a host name. Without this check, both mistakes would only appear later, when a call
finds no server.
"""

import re

_SCHEMES = ("dns:", "unix:", "unix-abstract:", "ipv4:", "ipv6:", "vsock:", "xds:")
_URL = re.compile(r"[a-zA-Z][\w+.-]*://(.*?)/*")
_ADDRESS = re.compile(r"(\[[^\[\]]+\]|[^:/\[\]\s]+):(\d+)")
_IPV6 = re.compile(r"[0-9a-fA-F:.]*(%.*)?")
_MAX_PORT = 65535


def check_target(target: object) -> str:
    """Returns the target of a client if it is valid.

    Raises:
        TypeError: the target is not text.
        ValueError: the target is not `host:port` and has no scheme of gRPC.
    """
    if not isinstance(target, str):
        message = f"target is {target!r}: write {_suggest(target)}"
        raise TypeError(message)
    found = _ADDRESS.fullmatch(target)
    if target.startswith(_SCHEMES) or (found and 0 < int(found[2]) <= _MAX_PORT):
        return target
    message = f"target is {target!r}; use host:port, dns:///host:port or unix:PATH: {_explain(target)}"
    raise ValueError(message)


def _explain(target: str) -> str:
    """Returns a text that says what is wrong with an address, and what to write instead."""
    url = _URL.fullmatch(target)
    if url is not None:
        return f"write {url[1]!r} without the scheme; for TLS, pass credentials=grpc.ssl_channel_credentials()"
    if target.isdecimal():
        return f"write 'localhost:{target}'"
    host, _, port = target.rpartition(":")
    if ":" in host and _IPV6.fullmatch(host):
        return f"write the IPv6 address in brackets, '[{host}]:{port}'"
    if target.startswith(":"):
        return f"write 'localhost{target}'"
    if ":" not in target:
        return f"add a port, as in '{target or 'localhost'}:50051'"
    return "end it with a port from 1 to 65535"


def _suggest(target: object) -> str:
    match target:
        case int() if not isinstance(target, bool):
            return f"'localhost:{target}'"
        case (str(host), int(port)):
            return f"'{host}:{port}'"
        case _:
            return "text such as 'localhost:50051'"
