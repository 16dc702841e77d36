"""The client of a command, built from the options of the command line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensor_reshape.client import Client

if TYPE_CHECKING:
    import grpc

_FILES = ("tls_ca", "tls_key", "tls_certificate")  # in the order of grpc's arguments


def open_client(server: str, options: Mapping[str, Any], **settings: Any) -> Client:
    """Returns a client.

    Args:
        server: the address of the server.
        options: `tls`, the files for TLS, and the options of the token, by parameter name.
        **settings: further arguments of the client.

    Raises:
        click.UsageError: the options conflict.
    """
    token = {name: options[name] for name in ("token_file", "allow_plaintext_token")}
    files = [options[name] for name in _FILES]
    try:
        return Client(server, credentials=_build_credentials(files, tls=options["tls"]), **token, **settings)
    except ValueError as error:  # the client has checked the values
        raise click.UsageError(str(error)) from None


def _build_credentials(files: "list[Path | None]", *, tls: bool) -> "grpc.ChannelCredentials | None":
    authority, key, chain = (None if file is None else file.read_bytes() for file in files)
    if bool(chain) != bool(key):
        message = "--tls-certificate and --tls-key must be given together"
        raise click.UsageError(message)
    if not (tls or any(files)):
        return None
    import grpc  # noqa: PLC0415 - most commands need it through the SDK only

    return grpc.ssl_channel_credentials(authority, key, chain)
