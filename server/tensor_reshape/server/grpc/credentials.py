"""TLS credentials of gRPC's core, which follow the certificates of `security.certificates`.

Before each handshake, gRPC's core requests new credentials on its own thread. The request for credentials never waits,
because the new credentials are already in memory. When the certificate changes, open connections keep their previous
credentials.
"""

from collections.abc import Callable
from typing import Any

import grpc

from tensor_reshape.server.security.certificates import Certificates, TlsContents


def build_credentials(certificates: Certificates | None) -> grpc.ServerCredentials | None:
    """Returns TLS credentials for one address, or None for plain text.

    Each address needs its own credentials object. If two addresses shared one object, only one of them would receive
    changed certificates.
    """
    if certificates is None:
        return None
    contents = certificates.value
    fetch: Any = _build_fetcher(certificates)  # the type is Any, because grpcio's type stubs do not allow None
    return grpc.dynamic_ssl_server_credentials(_configure(contents), fetch, contents.client_ca is not None)


def _configure(contents: TlsContents) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(contents.key, contents.chain)], contents.client_ca)


def _build_fetcher(certificates: Certificates) -> Callable[[], grpc.ServerCertificateConfiguration | None]:
    fetched = certificates.value

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        # gRPC's core calls `fetch` while it holds a lock. If `fetch` returns None, gRPC's core continues to use its
        # current credentials.
        nonlocal fetched
        if fetched is certificates.value:
            return None
        fetched = certificates.value
        return _configure(fetched)

    return fetch
