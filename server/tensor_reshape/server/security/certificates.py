"""The server's certificate, its key, and the authority of client certificates, checked and reloaded.

- gRPC's core accepts a certificate and a key that do not belong together, and then fails every handshake. So OpenSSL
  checks the files first, at the start and after each change.
- OpenSSL supports kinds of keys that the core does not, such as Ed448 or ECDSA on secp256k1. A server does not start
  with such a key. If one replaces a valid key, the core continues with the previous one, and only clients can notice.
- The core asks for new credentials before each handshake, on its own thread. The answer was prepared before, so it does
  not wait. Open connections keep their credentials.
- The core negotiates TLS 1.3 or at least 1.2 and has no setting for less. For HTTP, OpenSSL uses the same files and the
  same least version.
"""

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import grpc

from tensor_reshape.server.config import ConfigError, TlsFiles
from tensor_reshape.server.security.reloads import Reloaded, read_file


class _Loaded(NamedTuple):
    """The contents of the files, for the core and for OpenSSL."""

    configuration: grpc.ServerCertificateConfiguration
    context: ssl.SSLContext


class Certificates(Reloaded[_Loaded]):
    """The contents of the files in `TlsFiles`."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads and checks the files.

        Raises:
            ConfigError: the files are invalid.
        """
        self._demands = files.client_ca is not None
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        super().__init__("certificates", paths, partial(_load, files))

    def build_credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for one address.

        Each address needs its own, because only one of two would receive updates.
        """
        fetch: Any = self._build_fetcher()  # grpcio's stubs do not allow None
        return grpc.dynamic_ssl_server_credentials(self.value.configuration, fetch, self._demands)

    def find_context(self) -> ssl.SSLContext:
        """Returns the TLS context for a connection outside of gRPC's core, with the current files."""
        return self.value.context

    def _build_fetcher(self) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
        told = self.value

        def fetch() -> grpc.ServerCertificateConfiguration | None:
            # gRPC's core calls it under a lock. None: nothing has changed, so the core keeps its credentials.
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
    """Raises ConfigError if OpenSSL does not accept the files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # Without a password, OpenSSL would ask for one on the terminal if the key is encrypted. The core accepts none.
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
