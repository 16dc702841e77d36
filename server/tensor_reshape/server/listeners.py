"""Binds addresses, and refuses those that somebody else serves."""

import socket
from pathlib import Path
from urllib.parse import unquote

import grpc

from tensor_reshape.server.config import ConfigError, TlsFiles

_UNIX = "unix:"


def bind(server: grpc.Server, address: str, tls: TlsFiles | None) -> str:
    """Binds `server` to `address` and returns the address with its real port.

    Raises:
        ConfigError: the address is taken, is not of this machine, or the TLS files cannot be used.
    """
    if address.startswith(_UNIX):
        _check_unserved(address.removeprefix(_UNIX))
    try:
        port = _add_port(server, address, tls)
    except (RuntimeError, OSError) as error:
        message = f"cannot listen on {address}: {_find_cause(address, error)}"
        raise ConfigError(message) from error
    if address.startswith(_UNIX):
        return address
    return f"{address.rpartition(':')[0]}:{port}"


def _add_port(server: grpc.Server, address: str, tls: TlsFiles | None) -> int:
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, _read_credentials(tls))


def _read_credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    client_ca = tls.client_ca.read_bytes() if tls.client_ca else None
    return grpc.ssl_server_credentials([pair], root_certificates=client_ca, require_client_auth=bool(client_ca))


def _check_unserved(path: str) -> None:
    """Raises where a server answers on the socket: binding would take its place. A stale one is no obstacle."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(unquote(path))  # the address is a URI: grpc decodes it, too
        except OSError:
            return
    message = f"cannot listen on {_UNIX}{path}: another server does"
    raise ConfigError(message)


def _find_cause(address: str, error: Exception) -> str:
    """Binds once more by hand: grpc keeps the system's reason to itself."""
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}"
    try:
        _bind_by_hand(address)
    except OSError as cause:
        return str(cause.strerror or cause)
    return "the address is free; are the TLS files a PEM certificate and its key?"


def _bind_by_hand(address: str) -> None:
    if address.startswith(_UNIX):
        path = unquote(address.removeprefix(_UNIX))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.bind(path)
        Path(path).unlink()
        return
    host, _, port = address.rpartition(":")
    for family, kind, number, _, place in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        with socket.socket(family, kind, number) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
