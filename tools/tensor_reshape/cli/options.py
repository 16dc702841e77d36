"""Defines the options and arguments that several commands share, and creates the client of a command from them.

Invariants:

- This module imports numpy and grpc only when the value of an option needs them. The help and the completion of a word
  import neither numpy nor grpc.
- An error about an invalid option names the option, and is reported before the client connects.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tensor_reshape.cli.parameter_types import DATA_TYPE, Dims, ListenAddress, Seconds, ServerAddress
from tensor_reshape.client import CallTimeoutError, UnavailableError, use_fast_polling
from tensor_reshape.client.arguments import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.runtime.addresses import is_local

if TYPE_CHECKING:
    import grpc

    from tensor_reshape.client import Client

_Command = Callable[..., None]
_ARRAY = click.Path(readable=False)  # completes file names, and the code that opens a file checks it
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_CONNECTION = ("tls", "tls_ca", "tls_certificate", "tls_key", "token_file", "allow_plaintext_token")

SHAPE = Dims(unknown=False)

_NO_SERVER = "no server at"
# If the text of a connection error contains a key of this mapping, the error is shown with the advice of this key.
_ADVICE = {
    _NO_SERVER: 'Start one with "tensor-reshape serve", or name one with --server',
    "is not trusted": "Name the file of the authority with --tls-ca",
    "may require TLS": "Add --tls or --tls-ca, or --tls-certificate and --tls-key",
    "may require a client certificate": "Add --tls-certificate and --tls-key",
}


def _require_flag(_ctx: click.Context, _param: click.Parameter, value: bool | None) -> bool:  # noqa: FBT001 - of click
    if value is None:
        message = (
            "add --special-zero if a 0 in the requested shape copies the input dimension at its index, or "
            "--no-special-zero if it is a dimension of size 0"
        )
        raise click.UsageError(message)
    return value


SPECIAL_ZERO_OPTION = click.option(
    "--special-zero/--no-special-zero",
    default=None,
    callback=_require_flag,
    help="Whether a 0 in the requested shape copies the input dimension at its index, or is a dimension of size 0. "
    "Required.",
)
EXPECT_OPTION = click.option(
    "--expect",
    type=Dims(unknown=True),
    help="The expected output shape, with ? for an unknown dimension. The call fails if the output differs.",
)
JSON_OPTION = click.option(
    "--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON to standard output."
)


def open_client(server: str, options: Mapping[str, Any], timeout: float) -> "Client":
    """Returns a client."""
    from tensor_reshape.client import Client  # noqa: PLC0415 - it imports grpc

    credentials = _build_credentials(options)
    token = {name: options[name] for name in ("token_file", "allow_plaintext_token")}
    if token["token_file"] is not None and credentials is None:
        if not is_local(server):
            raise click.UsageError("--token-file requires TLS: add --tls or --tls-ca")
        if not token["allow_plaintext_token"]:
            message = "--token-file requires TLS (--tls or --tls-ca) or, on this machine only, --allow-plaintext-token"
            raise click.UsageError(message)
    try:
        return Client(server, credentials=credentials, timeout=timeout, **token)
    except ValueError as error:  # the server address has already been checked, so only the token can be invalid
        raise click.UsageError(f"--token-file {token['token_file']}: {error}") from None


def explain_failure(
    error: CallTimeoutError | UnavailableError, *, has_local: bool
) -> CallTimeoutError | UnavailableError:
    """Returns the error of a command that got no response, with advice on the options that can help.

    If a proxy has ended the call before the timeout of the command, the text of the proxy's error is kept.
    """
    text, advice = error.message, ""
    if isinstance(error, CallTimeoutError):
        if error.seconds is None:
            return error
        advice = "Allow more time with --timeout"
        text = f"no response within {error.seconds:g} s" + (f"; {error.fault}" if error.fault else "")
    advice = next((better for sign, better in _ADVICE.items() if sign in text), advice)
    if has_local and _NO_SERVER in text:
        advice += ", or add --local, which needs no server"
    return type(error)(f"{text}. {advice}" if advice else text, error.code)


def _build_credentials(options: Mapping[str, Any]) -> "grpc.ChannelCredentials | None":
    authority, key, certificate = options["tls_ca"], options["tls_key"], options["tls_certificate"]
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-certificate and --tls-key must be given together")
    if not (options["tls"] or authority or certificate):
        return None
    _check_files(authority, certificate, key)
    import grpc  # noqa: PLC0415 - most commands need it through the SDK only

    files = (None if file is None else file.read_bytes() for file in (authority, key, certificate))
    return grpc.ssl_channel_credentials(*files)


def _check_files(authority: Path | None, certificate: Path | None, key: Path | None) -> None:
    """Checks the TLS files with Python's module `ssl`, because gRPC would report an invalid file only in its log."""
    import ssl  # noqa: PLC0415 - commands without TLS do not need it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authority is not None:
            context.load_verify_locations(authority)
    except ssl.SSLError:
        raise click.UsageError(f"--tls-ca {authority} has no certificate in PEM format") from None
    try:
        if certificate is not None:
            # Without the password argument, OpenSSL would ask the user for the password of an encrypted key.
            context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError:
        message = (
            f"--tls-certificate {certificate} and --tls-key {key} are not a certificate chain and its key in PEM "
            "format, or the key is encrypted"
        )
        raise click.UsageError(message) from None


class Connection(NamedTuple):
    """The values of the connection options of a command. A client is created only when `open` is called.

    Attributes:
        server: the address of the server, or an empty text if the command needs none.
        timeout: the timeout of each call, in seconds.
        options: the TLS options and the token options, by parameter name.
        has_local: whether the command has the option --local, with which it works without a server.
    """

    server: str
    timeout: float
    options: Mapping[str, object]
    has_local: bool

    @contextmanager
    def open(self) -> "Iterator[Client]":
        """Opens a client for the block. If a call gets no response, the error names the options that can help."""
        _prepare_grpc()
        with open_client(self.server, self.options, self.timeout) as client:
            try:
                yield client
            except (CallTimeoutError, UnavailableError) as error:
                raise explain_failure(error, has_local=self.has_local) from None


def _prepare_grpc() -> None:
    """Makes small calls faster and switches gRPC's own log off.

    If grpc has already been imported, for example by a test, the function does nothing.
    """
    if "grpc" not in sys.modules:
        # gRPC would log each failed TLS handshake, but the error of the command already contains the cause.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # noqa: TID251 - gRPC has no other interface for it
        use_fast_polling()


def _build_server_option(address: ServerAddress, variables: Sequence[str]) -> Callable[[_Command], _Command]:
    return click.option(
        "--server",
        type=address,
        envvar=variables,
        default=DEFAULT_TARGET,
        show_default=True,
        help="The address of the server, HOST:PORT.",
    )


_SERVER_OPTION = _build_server_option(ServerAddress(), ["TENSOR_RESHAPE_SERVER"])
LOCAL_SERVER_OPTION = _build_server_option(
    ListenAddress(), ["TENSOR_RESHAPE_SERVER", "TENSOR_RESHAPE_HEALTH_LISTEN", "TENSOR_RESHAPE_LISTEN"]
)
"""The option --server with another default: the server that the environment configures, as in a container."""
OPTIONAL_SERVER_OPTION = click.option(
    "--server", type=ServerAddress(), help="Ask the server at this address, HOST:PORT. By default, no server is asked."
)


def connection_options(command: _Command, server_option: Callable[[_Command], _Command] = _SERVER_OPTION) -> _Command:
    """Adds the connection options to a command. The command receives a `Connection` as its first argument."""

    @functools.wraps(command)
    def prepared(*arguments: object, server: str | None, timeout: float, **options: object) -> None:
        # The connection options are removed from `options`, because the command itself accepts only its own options.
        connection = {name: options.pop(name) for name in _CONNECTION}
        has_local = any(param.name == "local" for param in click.get_current_context().command.params)
        command(Connection(server or "", timeout, connection, has_local), *arguments, **options)

    return _add_options(
        prepared,
        server_option,
        click.option(
            "--timeout",
            type=Seconds(),
            default=DEFAULT_TIMEOUT_SECONDS,
            show_default=True,
            help="The timeout of each call, in seconds.",
        ),
        _build_client_option("--tls", "Connect with TLS, and trust the default certificate authorities.", is_flag=True),
        _build_client_option("--tls-ca", "Connect with TLS, and trust the certificate authorities in this PEM file."),
        _build_client_option("--tls-certificate", "The certificate chain of the client, a PEM file."),
        _build_client_option("--tls-key", "The private key of the client, a PEM file."),
        _build_client_option("--token-file", "Send the bearer token that this file contains. Requires TLS."),
        _build_client_option(
            "--allow-plaintext-token",
            "Send the token without TLS too, but only to a server on this machine.",
            is_flag=True,
        ),
    )


def server_options(command: _Command, server_option: Callable[[_Command], _Command] = _SERVER_OPTION) -> _Command:
    """Adds the connection options to a command. The command receives a client as its first argument."""

    @functools.wraps(command)
    def connected(connection: Connection, *arguments: object, **options: object) -> None:
        with connection.open() as client:
            command(client, *arguments, **options)

    return connection_options(connected, server_option)


def array_options(command: _Command) -> _Command:
    """Adds the options of a command that reshapes an array.

    The command receives an `ArrayFiles` as its first argument.
    """

    @functools.wraps(command)
    def prepared(**options: object) -> None:
        from tensor_reshape.cli.files import ArrayFiles  # noqa: PLC0415 - it imports numpy

        names = ("source", "output", "data_type", "as_json", "progress")
        # The option values need no check here, because click has already converted them.
        given: dict[str, Any] = {name: options.pop(name) for name in names}
        is_default = click.get_current_context().get_parameter_source("timeout") is ParameterSource.DEFAULT
        given["timeout"] = None if is_default else options["timeout"]
        command(ArrayFiles(**given), expected_shape=options.pop("expect"), **options)

    return _add_options(
        prepared,
        click.argument("source", metavar="INPUT", type=_ARRAY),
        click.option(
            "--output",
            "-o",
            type=_ARRAY,
            metavar="FILE",
            default="-",
            show_default=True,
            help="The output file: .npy, .npz[:NAME] or .safetensors[:NAME]; - writes .npy to standard output.",
        ),
        click.option(
            "--data-type",
            type=DATA_TYPE,
            help="The data type, if .npy has no name for it: bf16, 8-bit floats, and types below one byte.",
        ),
        SPECIAL_ZERO_OPTION,
        EXPECT_OPTION,
        JSON_OPTION,
        click.option(
            "--progress/--no-progress",
            default=True,
            show_default=True,
            help="Show the progress of a long transfer if standard error is a terminal.",
        ),
    )


def _build_client_option(flag: str, text: str, *, is_flag: bool = False) -> Callable[[_Command], _Command]:
    # The variable has the prefix TENSOR_RESHAPE_CLIENT_ because the TENSOR_RESHAPE_TLS_ variables name the server's
    # files, and a container may have the variables of both.
    variable = f"TENSOR_RESHAPE_CLIENT_{flag.removeprefix('--').replace('-', '_').upper()}"
    return click.option(flag, type=None if is_flag else _FILE, is_flag=is_flag, envvar=variable, help=text)


def _add_options(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):  # Python applies decorators from last to first
        command = option(command)
    return command
