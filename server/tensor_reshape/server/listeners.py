"""Binds addresses, and refuses those that somebody else serves."""

import socket

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
        message = f"cannot listen on {address}: {_find_cause(error)}"
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
            probe.connect(path)
        except OSError:
            return
    message = f"cannot listen on {_UNIX}{path}: another server does"
    raise ConfigError(message)


def _find_cause(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror}: {error.filename}" if error.filename else str(error)
    return "the address is in use, or it is not an address of this machine"
