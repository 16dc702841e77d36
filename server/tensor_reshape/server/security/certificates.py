"""Loads the server's certificate, its key, and the authority of client certificates, and reloads changed files.

- gRPC's core accepts a certificate and a key that do not belong together, but every handshake then fails. OpenSSL
  therefore checks the certificate and the key first, at the start and after each change of the files.
- OpenSSL supports types of keys that gRPC's core does not support, such as Ed448 or ECDSA on secp256k1. A server does
  not start with a key of a type that gRPC's core does not support. If a key of an unsupported type replaces a valid
  key, gRPC's core continues to use the previous key. The server does not detect this fault, so only clients can see
  that the new certificate is not used.
- gRPC's core negotiates TLS 1.2 or 1.3, and has no setting for older versions. The HTTP port uses OpenSSL with the same
  files and the same minimum version.
"""

import ssl
from functools import partial
from typing import NamedTuple

from tensor_reshape.server.config import ConfigError, TlsFiles
from tensor_reshape.server.security.reloads import Reloaded, read_file


class TlsContents(NamedTuple):
    """The contents of the certificate and key files.

    Attributes:
        key: the server's private key in PEM.
        chain: the server's certificate chain in PEM.
        client_ca: the certificates of the authority that signs client certificates, or None if clients need no
            certificate.
        context: the TLS context of OpenSSL with the same contents, for the HTTP port.
    """

    key: bytes
    chain: bytes
    client_ca: bytes | None
    context: ssl.SSLContext


class Certificates(Reloaded[TlsContents]):
    """The contents of the certificate and key files, which are reloaded after a change."""

    def __init__(self, files: TlsFiles) -> None:
        """Reads the files, and checks that they belong together.

        Raises:
            ConfigError: a file cannot be read, or OpenSSL does not accept the files.
        """
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        super().__init__("certificates", paths, partial(_load, files))


def _load(files: TlsFiles) -> TlsContents:
    key, chain = read_file(files.key), read_file(files.certificate)
    client_ca = None if files.client_ca is None else read_file(files.client_ca)
    return TlsContents(key, chain, client_ca, _build_context(files))


def _build_context(files: TlsFiles) -> ssl.SSLContext:
    """Returns the TLS context for the files, or raises ConfigError if OpenSSL does not accept them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # If the key is encrypted, the empty password causes an error. Without a password, OpenSSL would request one on
        # the terminal, but gRPC's core does not support encrypted keys.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, OSError) as error:
        message = f"{files.certificate} and {files.key} are not a PEM certificate and its private key{_explain(error)}"
        raise ConfigError(message) from None
    if files.client_ca is None:
        return context
    try:
        context.load_verify_locations(files.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    except (ssl.SSLError, OSError) as error:
        message = f"{files.client_ca} contains no PEM certificate of a certificate authority{_explain(error)}"
        raise ConfigError(message) from None
    return context


def _explain(error: OSError) -> str:
    """Returns the reason that OpenSSL or the system gives for an error, as the end of an error message.

    It may be empty.
    """
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f": {reason.lower().replace('_', ' ')}" if reason else ""
