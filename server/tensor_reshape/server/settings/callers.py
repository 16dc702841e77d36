"""Who may call, and what they may ask for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tensor_reshape.server.settings.declarations import Declaration


@dataclass(frozen=True, kw_only=True)
class CallerSettings:
    """Who may call, over what, and what they are told of the contract."""

    tls_certificate: Annotated[
        Path | None, Declaration(help="The server's certificate chain, PEM. With --tls-key.")
    ] = None

    tls_key: Annotated[Path | None, Declaration(help="Its private key, PEM.")] = None

    tls_client_ca: Annotated[
        Path | None, Declaration(help="Demand client certificates signed by this authority, PEM.")
    ] = None

    allow_identity: Annotated[
        tuple[str, ...],
        Declaration(
            help="With --tls-client-ca: a certificate has to prove one of these, uri:spiffe://authority/path, dns:host "
            "or email:name@host, with a * in place of one whole label; may be repeated.",
            metavar="IDENTITY",
        ),
    ] = ()

    token_file: Annotated[
        Path | None,
        Declaration(
            help="Calls have to show one of the bearer tokens in this file: NAME:TOKEN or NAME:sha256:HEX a line."
        ),
    ] = None

    allow_plaintext_tokens: Annotated[
        bool, Declaration(help="Whether tokens are taken without TLS where others than this machine can listen.")
    ] = False

    authorization_file: Annotated[
        Path | None,
        Declaration(help="Which identities may call which methods, TOML; without it, whoever may call may call all."),
    ] = None

    compression: Annotated[
        bool,
        Declaration(
            help="Whether messages may be compressed: only for callers that you trust, since a few kilobytes of gzip "
            "cost as much as the largest message."
        ),
    ] = False

    reflection: Annotated[
        bool | None,
        Declaration(
            help="Whether tools that do not have the contract may ask for it; callers that have to say who they are, "
            "as for all else.",
            system_default="on, unless callers have to say who they are",
        ),
    ] = None
