"""Creates the client of a command from the options of the command line, and explains why a call got no response.

Invariant: an error about an invalid option names the option, and is reported before the client connects.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tensor_reshape.client import CallTimeoutError, Client, UnavailableError
from tensor_reshape.runtime.addresses import is_local

if TYPE_CHECKING:
    import grpc

_NO_SERVER = "no server at"
# If the text of a connection error contains a key of this mapping, the error is shown with this advice.
_ADVICE = {
    _NO_SERVER: 'Start one with "tensor-reshape serve", or name one with --server',
    "is not trusted": "Name the file of the authority with --tls-ca",
    "may require TLS": "Add --tls or --tls-ca, or --tls-certificate and --tls-key",
    "may require a client certificate": "Add --tls-certificate and --tls-key",
}


def open_client(server: str, options: Mapping[str, Any], **settings: Any) -> Client:
    """Returns a client.

    Args:
        server: the address of the server.
        options: the option `tls`, the files for TLS, and the token options, by parameter name.
        **settings: further arguments of the client.

    Raises:
        click.UsageError: the options conflict, or a file is not valid.
    """
    credentials = _build_credentials(options)
    token = {name: options[name] for name in ("token_file", "allow_plaintext_token")}
    if token["token_file"] is not None and credentials is None:
        if not is_local(server):
            message = "--token-file requires TLS: add --tls or --tls-ca"
            raise click.UsageError(message)
        if not token["allow_plaintext_token"]:
            message = "--token-file requires TLS (--tls or --tls-ca) or, on this machine only, --allow-plaintext-token"
            raise click.UsageError(message)
    try:
        return Client(server, credentials=credentials, **token, **settings)
    except ValueError as error:  # the server address is already known to be valid, so only the token can be invalid
        message = f"--token-file {token['token_file']}: {error}"
        raise click.UsageError(message) from None


def explain_loss(error: UnavailableError, *, has_local: bool) -> UnavailableError:
    """Returns the error of a command that reached no server, with the options that can help.

    Args:
        error: the error of the SDK.
        has_local: whether the command has the option --local.
    """
    return UnavailableError(_advise(error.message, has_local=has_local), error.code)


def explain_timeout(error: CallTimeoutError) -> CallTimeoutError:
    """Returns the error of a command whose time has passed, with the time and the options that can help.

    If a proxy has ended the call earlier, the text of the proxy is kept.
    """
    if error.seconds is None:
        return error
    text = f"no response within {error.seconds:g} s" + (f"; {error.fault}" if error.fault else "")
    advised = _advise(text, has_local=False)
    return CallTimeoutError(f"{text}. Allow more time with --timeout" if advised == text else advised, error.code)


def _advise(text: str, *, has_local: bool) -> str:
    advice = next((advice for sign, advice in _ADVICE.items() if sign in text), "")
    if has_local and _NO_SERVER in text:
        advice += ", or add --local, which needs no server"
    return f"{text}. {advice}" if advice else text


def _build_credentials(options: Mapping[str, Any]) -> "grpc.ChannelCredentials | None":
    authority, key, certificate = options["tls_ca"], options["tls_key"], options["tls_certificate"]
    if (certificate is None) != (key is None):
        message = "--tls-certificate and --tls-key must be given together"
        raise click.UsageError(message)
    if not (options["tls"] or authority or certificate):
        return None
    _check_files(authority, certificate, key)
    import grpc  # noqa: PLC0415 - most commands need it through the SDK only

    files = (None if file is None else file.read_bytes() for file in (authority, key, certificate))
    return grpc.ssl_channel_credentials(*files)


def _check_files(authority: Path | None, certificate: Path | None, key: Path | None) -> None:
    """Checks the files for TLS with Python's `ssl`, because gRPC would report an invalid file only in its log."""
    import ssl  # noqa: PLC0415 - commands without TLS do not need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authority is not None:
            context.load_verify_locations(authority)
    except ssl.SSLError:
        message = f"--tls-ca {authority} has no certificate in PEM format"
        raise click.UsageError(message) from None
    try:
        if certificate is not None:
            # Without a password argument, OpenSSL would ask for a password.
            context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError:
        message = (
            f"--tls-certificate {certificate} and --tls-key {key} are not a certificate chain and its key in PEM "
            "format, or the key is encrypted"
        )
        raise click.UsageError(message) from None
