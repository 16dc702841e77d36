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

    reflection: Annotated[bool, Declaration(help="Whether tools that do not have the contract may ask for it.")] = True
