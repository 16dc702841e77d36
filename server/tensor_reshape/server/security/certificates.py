"""The server's certificate, its key, and the authority of its clients: checked, and replaced while it serves.

- gRPC's core takes a pair that does not belong together without a word, and then ends every handshake. So OpenSSL
  looks at the files first, here and whenever they change.
- OpenSSL takes kinds of keys that the core does not, such as Ed448 or ECDSA on secp256k1. With these a server does not
  start; where they replace others, the core goes on with the former ones, and only the clients can tell.
- The core asks for news before each handshake, on a thread of its own: what it is told was made before, so it waits for
  nothing. Connections that are open keep what they were made with.
- TLS 1.2 is the least that the core negotiates, and 1.3 what it prefers; it has no setting for less. What is served
  without the core, HTTP, is made by OpenSSL with the same files and the same least version.
"""

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import grpc

from tensor_reshape.server.config import ConfigError, TlsFiles
from tensor_reshape.server.security.reloads import Reloaded, read_file


class _Loaded(NamedTuple):
    """What the files hold, as the core takes it, and as OpenSSL does."""

    configuration: grpc.ServerCertificateConfiguration
    context: ssl.SSLContext


class Certificates(Reloaded[_Loaded]):
    """What the files of `TlsFiles` hold."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads and checks the files.

        Raises:
            ConfigError: they cannot be used.
        """
        self._demands = files.client_ca is not None
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        super().__init__("certificates", paths, partial(_load, files))

    def build_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials of one address; of two that share them the second would be told of no news."""
        fetch: Any = self._build_fetcher()  # whose type has no None in grpcio's stubs
        return grpc.dynamic_ssl_server_credentials(self.value.configuration, fetch, self._demands)

    def find_context(self) -> ssl.SSLContext:
        """Returns what a connection is made with that is not the core's: of the files as they are now."""
        return self.value.context

    def _build_fetcher(self) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        told = self.value

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            # Called one at a time, under a lock of the core's; None: nothing has changed, so nothing is made anew.
            nonlocal told
            if told is self.value:
                return None
            told = self.value
            return told.configuration

        return fetch


def _load(files: TlsFiles) -> _Loaded:
    key, chain = read_file(files.key), read_file(files.certificate)
    client_ca = None if files.client_ca is None else read_file(files.client_ca)
    context = _build_context(files)
    return _Loaded(grpc.ssl_server_certificate_configuration([(key, chain)], client_ca), context)


def _build_context(files: TlsFiles) -> ssl.SSLContext:
    """Raises ConfigError where OpenSSL does not take the files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # With a password, or OpenSSL would ask for the one of an encrypted key on the terminal. The core takes none.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError) as error:
        message = f"{files.certificate} and {files.key} are not a PEM certificate and its key: {_explain(error)}"
        raise ConfigError(message) from None
    if files.client_ca is None:
        return context
    try:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError) as error:
        message = f"{files.client_ca} contains no PEM certificate of an authority: {_explain(error)}"
        raise ConfigError(message) from None
    return context


def _explain(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or "it cannot be read").lower().replace("_", " ")
