"""Binds addresses, and refuses those that somebody else serves."""

import errno
import socket
from pathlib import Path
from urllib.parse import unquote

import grpc

from tensor_reshape.server.config import ConfigError, TlsFiles

_UNIX = "unix:"
# A name may stand for addresses that this machine does not have, ::1 most of all.
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_NO_TLS = "are the TLS files a PEM certificate and its key?"
_NO_REASON = "the address is taken, or nothing of this machine"


def bind(server: grpc.Server, address: str, tls: TlsFiles | None) -> str:
    """Binds `server` to `address` and returns the address with its real port.

    Raises:
        ConfigError: the address is taken, is not of this machine, or the TLS files cannot be used.
    """
    try:
        if address.startswith(_UNIX):
            _check_unserved(address.removeprefix(_UNIX))
        else:
            _check_free(address)
        port = _add_port(server, address, tls)
    except RuntimeError as error:  # grpc keeps the reason to itself; that of the address is known by now
        message = f"cannot listen on {address}: {_NO_TLS if tls else _NO_REASON}"
        raise ConfigError(message) from error
    except OSError as error:
        cause = f"{error.strerror}: {error.filename}" if error.filename else error.strerror or str(error)
        message = f"cannot listen on {address}: {cause}"
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
    decoded = Path(unquote(path))  # the address is a URI: grpc decodes it, too
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(decoded))
        except ConnectionRefusedError:
            return  # a stale socket, or a file that is none, which grpc refuses
        except FileNotFoundError:
            probe.bind(str(decoded))
            decoded.unlink()
            return
    message = "another server does"
    raise OSError(message)


def _check_free(address: str) -> None:
    """Raises where any address of the host is taken: grpc is content with one of them, and shares the name's port."""
    host, _, port = address.rpartition(":")
    for family, kind, number, _, place in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind, number) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
