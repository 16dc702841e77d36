"""Settings for TLS, authentication and authorization."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration


@dataclass(frozen=True, kw_only=True)
class CallerSettings:
    """TLS, authentication and authorization."""

    tls_certificate: Annotated[
        Path | None, Declaration(help="PEM file with the server's certificate chain. Needs --tls-key.")
    ] = None

    tls_key: Annotated[Path | None, Declaration(help="PEM file with the private key of the certificate.")] = None

    tls_client_ca: Annotated[
        Path | None,
        Declaration(
            help="PEM file with a certificate authority. Clients must present a certificate that the authority has "
            "signed. Without this option, clients need no certificate."
        ),
    ] = None

    token_file: Annotated[
        Path | None,
        Declaration(
            help="File with bearer tokens, one per line: NAME:TOKEN or NAME:sha256:HEX. Each call must send one of "
            "the tokens. Without this option, calls need no token."
        ),
    ] = None

    allow_plaintext_tokens: Annotated[
        bool,
        Declaration(
            help="Accept tokens without TLS on addresses that other machines can reach. Use it only if something else "
            "encrypts the connections, for example a service mesh."
        ),
    ] = False

    authorization_file: Annotated[
        Path | None,
        Declaration(
            help="TOML file with the methods that each identity may call. Without this option, authenticated callers "
            "may call every method."
        ),
    ] = None
