"""The options and arguments of the command line for shapes, data types and servers.

Invariant: nothing here imports numpy or grpc before an option needs it, so help and completion do not.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tensor_reshape.client import use_fast_polling
from tensor_reshape.client.defaults import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.shape_parser import parse_shape, parse_strides

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tensor_reshape.client import Client
    from tensor_reshape.wire.arrays import Array

_Command = Callable[..., None]
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_CONNECTION = ("tls", "tls_ca", "tls_certificate", "tls_key", "token_file", "allow_plaintext_token")


class Dims(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Comma-separated dims. An empty text is the shape of a scalar."""

    name = "dims"

    def __init__(self, *, unknown: bool) -> None:
        """Accepts ? for an unknown dim if `unknown` is True."""
        self._unknown = unknown

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int | None]:
        """Returns the dims, with None for an unknown one."""
        text = _note(value, param, ctx).strip()
        # Splitting an empty text would give one empty item instead of the shape of a scalar.
        items = [item.strip() for item in text.split(",")] if text else []
        try:
            return tuple(None if item == "?" and self._unknown else int(item) for item in items)
        except ValueError:
            self.fail(f"{text!r} is not a shape: write it as 2,3,-1", param, ctx)


class PartialShape(NamedTuple):
    """A partial shape. The value None of an option means that it was not given.

    Attributes:
        dims: the dims; None: the rank is unknown.
    """

    dims: tuple[AnyDim, ...] | None


class PartialDims(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Dims in the notation of `rules.shape_parser`, or a shape with unknown rank."""

    name = "dims"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PartialShape:
        """Returns the partial shape."""
        try:
            return PartialShape(parse_shape(_note(value, param, ctx), str(self.name)))
        except InvalidRequestError as error:
            raise click.BadParameter(error.message, ctx, param) from error  # its field is the index of the item


class Strides(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Strides in the notation of `rules.shape_parser`."""

    name = "strides"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int]:
        """Returns the strides."""
        try:
            return parse_strides(_note(value, param, ctx), self.name)
        except InvalidRequestError as error:
            raise click.BadParameter(error.message, ctx, param) from error


class Target(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A requested shape as numbers, or the name of a file with the shape as an array."""

    name = "dims|@file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Sequence[int] | Array":
        """Returns the numbers, or the array with its type."""
        text = str(value)
        if text.startswith("@"):
            from tensor_reshape.cli.sources import read_array  # noqa: PLC0415 - it imports numpy

            return read_array(text.removeprefix("@"))
        # none is None; this is for type checkers
        return [dim for dim in SHAPE.convert(value, param, ctx) if dim is not None]


class DataTypeName(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A data type with its name in the specifications."""

    name = "type"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> DataType:
        """Returns the data type."""
        name = str(value).upper()
        if name not in DataType.__members__:
            self.fail(f"{value} is not one of {', '.join(map(str, DataType))}", param, ctx)
        return DataType[name]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the names with this beginning."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

        return [CompletionItem(str(known)) for known in DataType if str(known).startswith(incomplete.lower())]


class ArrayPath(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A file, a member of one, or - for a pipe."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Lets the shell complete file names."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

        return [CompletionItem(incomplete, type="file")]


SHAPE = Dims(unknown=False)

SPECIAL_ZERO_OPTION = click.option(
    "--special-zero/--no-special-zero",
    required=True,
    help="A 0 in the target shape copies the data dim with the same index, or is the dim 0.",
)
EXPECT_OPTION = click.option(
    "--expect",
    type=Dims(unknown=True),
    help="The expected output shape, with ? for an unknown dim. The call fails if the output differs.",
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON.")


class Connection(NamedTuple):
    """The connection options of a command. Nothing is opened before `open`.

    Attributes:
        server: the address of the server.
        timeout: the timeout of each call, in seconds.
        options: the options of TLS and of the token, by parameter name.
    """

    server: str
    timeout: float
    options: Mapping[str, object]

    def open(self) -> "Client":
        """Returns a client, which the caller must close.

        Raises:
            click.UsageError: the options conflict.
        """
        _prepare_grpc()
        from tensor_reshape.cli.connections import open_client  # noqa: PLC0415 - it imports grpc

        return open_client(self.server, self.options, timeout=self.timeout)


def _prepare_grpc() -> None:
    """Makes small calls of this process faster, unless grpc is already imported, for example by a test."""
    if "grpc" not in sys.modules:
        use_fast_polling()


def connection_options(command: _Command) -> _Command:
    """Adds the connection options. The command gets a `Connection` as its first argument."""

    @functools.wraps(command)
    def prepared(*arguments: object, server: str, timeout: float, **options: object) -> None:
        # A command gets only its own options.
        connection = {name: options.pop(name) for name in _CONNECTION}
        command(Connection(server, timeout, connection), *arguments, **options)

    return _add_options(
        prepared,
        click.option(
            "--server",
            envvar="TENSOR_RESHAPE_SERVER",
            default=DEFAULT_TARGET,
            show_default=True,
            help="The address of the server, HOST:PORT.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT_SECONDS,
            show_default=True,
            help="The timeout of each call, in seconds.",
        ),
        click.option(
            "--tls",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_TLS",
            help="Connect with TLS, and trust the default certificate authorities.",
        ),
        _file_option("--tls-ca", "Connect with TLS, and trust the certificate authorities in this PEM file."),
        _file_option("--tls-certificate", "The certificate chain of the client, a PEM file."),
        _file_option("--tls-key", "The private key of the client, a PEM file."),
        _file_option("--token-file", "Send the bearer token that this file contains. Requires TLS."),
        click.option(
            "--allow-plaintext-token",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_ALLOW_PLAINTEXT_TOKEN",
            help="Send the token without TLS too, but only to a server on this machine.",
        ),
    )


def server_options(command: _Command) -> _Command:
    """Adds the connection options. The command gets a client as its first argument."""

    @functools.wraps(command)
    def connected(connection: Connection, *arguments: object, **options: object) -> None:
        with connection.open() as client:
            command(client, *arguments, **options)

    return connection_options(connected)


def array_options(command: _Command) -> _Command:
    """Adds the options of commands that reshape an array. The command gets its files as a positional argument."""

    @functools.wraps(command)
    def prepared(**options: object) -> None:
        from tensor_reshape.cli.files import ArrayFiles  # noqa: PLC0415 - it imports numpy

        names = ("source", "output", "data_type", "as_json", "progress")
        files = ArrayFiles(**{name: options.pop(name) for name in names})  # type: ignore[arg-type] # click has converted them
        command(files, **options)

    return _add_options(
        prepared,
        click.argument("source", metavar="INPUT", type=ArrayPath()),
        click.option(
            "--output",
            "-o",
            type=ArrayPath(),
            default="-",
            show_default=True,
            help="The output file: .npy, .npz[:NAME] or .safetensors[:NAME]; - writes .npy to standard output.",
        ),
        click.option(
            "--data-type",
            type=DataTypeName(),
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


def _file_option(flag: str, text: str) -> Callable[[_Command], _Command]:
    # Not TENSOR_RESHAPE_TLS_..., because these are the server's files, and a container may have both.
    variable = f"TENSOR_RESHAPE_CLIENT_{flag.removeprefix('--').replace('-', '_').upper()}"
    return click.option(flag, type=_FILE, envvar=variable, help=text)


def _note(value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Returns the text of an option, and stores it for error messages that show it."""
    if ctx is not None and param is not None and isinstance(ctx.obj, dict):
        ctx.obj[str(param.name)] = str(value)
    return str(value)


def _add_options(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):  # decorators are applied from last to first
        command = option(command)
    return command
