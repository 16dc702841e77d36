"""How shapes, data types and servers are written on the command line.

Law: nothing here takes numpy or grpc before an option needs it, so that help and completion do without.
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
from tensor_reshape.rules.typed_shapes import parse_shape, parse_strides

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tensor_reshape.client import Client
    from tensor_reshape.wire.arrays import Array

_Command = Callable[..., None]
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_CONNECTION = ("tls", "tls_ca", "tls_certificate", "tls_key", "token_file", "allow_plaintext_token")


class Dims(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Comma-separated dims; nothing at all is the shape of a scalar."""

    name = "dims"

    def __init__(self, *, unknown: bool) -> None:
        """Takes ? for an unknown dim where `unknown` is true."""
        self._unknown = unknown

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int | None]:
        """Returns the dims, None for an unknown one."""
        text = _note(value, param, ctx).strip()
        # Split, nothing at all would be one empty item, not the shape of a scalar.
        items = [item.strip() for item in text.split(",")] if text else []
        try:
            return tuple(None if item == "?" and self._unknown else int(item) for item in items)
        except ValueError:
            self.fail(f"{text!r} is not a shape: write it as 2,3,-1", param, ctx)


class PartialShape(NamedTuple):
    """What is known of a shape: None as a value of its own is an option that was not given.

    Attributes:
        dims: None: not even the rank is known.
    """

    dims: tuple[AnyDim, ...] | None


class PartialDims(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Dims as `rules.typed_shapes` reads them, or a shape of which nothing is known."""

    name = "dims"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> PartialShape:
        """Returns what is known."""
        try:
            return PartialShape(parse_shape(_note(value, param, ctx), str(self.name)))
        except InvalidRequestError as error:
            raise click.BadParameter(error.message, ctx, param) from error  # whose field is the item to blame


class Strides(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Strides as `rules.typed_shapes` reads them."""

    name = "strides"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int]:
        """Returns the strides."""
        try:
            return parse_strides(_note(value, param, ctx), self.name)
        except InvalidRequestError as error:
            raise click.BadParameter(error.message, ctx, param) from error


class Target(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A target shape as numbers, or the name of a file that holds it as an array."""

    name = "dims|@file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> "Sequence[int] | Array":
        """Returns the numbers, or the array with the type it has."""
        text = str(value)
        if text.startswith("@"):
            from tensor_reshape.cli.sources import read_array  # noqa: PLC0415 - it takes numpy

            return read_array(text.removeprefix("@"))
        return [dim for dim in SHAPE.convert(value, param, ctx) if dim is not None]  # none is: for type checkers


class DataTypeName(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A data type by its name in the specifications."""

    name = "type"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> DataType:
        """Returns the data type."""
        name = str(value).upper()
        if name not in DataType.__members__:
            self.fail(f"{value} is not one of {', '.join(map(str, DataType))}", param, ctx)
        return DataType[name]

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the names that begin so."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - for a shell that completes alone

        return [CompletionItem(str(known)) for known in DataType if str(known).startswith(incomplete.lower())]


class ArrayPath(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A file, a member of one, or - for a pipe."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Has the shell complete names of files."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - as above

        return [CompletionItem(incomplete, type="file")]


SHAPE = Dims(unknown=False)

SPECIAL_ZERO_OPTION = click.option(
    "--special-zero/--no-special-zero",
    required=True,
    help="Whether a 0 in the target copies the data dim at its index.",
)
EXPECT_OPTION = click.option(
    "--expect",
    type=Dims(unknown=True),
    help="The output shape you count on; ? for a dim that may be anything.",
)
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON, errors included.")


class Connection(NamedTuple):
    """How a command reaches the server; nothing is opened before it is asked for.

    Attributes:
        server: where it is.
        timeout: of each call, in seconds.
        options: of TLS and of the token, by the names of their parameters.
    """

    server: str
    timeout: float
    options: Mapping[str, object]

    def open(self) -> "Client":
        """Returns a client; whoever asks closes it.

        Raises:
            click.UsageError: the options contradict each other.
        """
        _prepare_grpc()
        from tensor_reshape.cli.connections import open_client  # noqa: PLC0415 - it takes grpc

        return open_client(self.server, self.options, timeout=self.timeout)


def _prepare_grpc() -> None:
    """Makes small calls of this process faster, unless its caller has imported grpc already, as a test may."""
    if "grpc" not in sys.modules:
        use_fast_polling()


def connection_options(command: _Command) -> _Command:
    """Adds the options that say how to reach the server; the command gets a `Connection` as its first argument."""

    @functools.wraps(command)
    def prepared(*arguments: object, server: str, timeout: float, **options: object) -> None:
        # Those of the connection are taken away: a command sees its own options alone.
        connection = {name: options.pop(name) for name in _CONNECTION}
        command(Connection(server, timeout, connection), *arguments, **options)

    return _add_options(
        prepared,
        click.option("--server", envvar="TENSOR_RESHAPE_SERVER", default=DEFAULT_TARGET, show_default=True),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT_SECONDS,
            show_default=True,
            help="In seconds.",
        ),
        click.option(
            "--tls",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_TLS",
            help="Connect with TLS, trusting the default authorities.",
        ),
        _file_option("--tls-ca", "Connect with TLS, trusting this authority (PEM)."),
        _file_option("--tls-certificate", "The client's own certificate chain (PEM)."),
        _file_option("--tls-key", "Its private key (PEM)."),
        _file_option("--token-file", "Show the bearer token that this file holds, over TLS."),
        click.option(
            "--allow-plaintext-token",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_ALLOW_PLAINTEXT_TOKEN",
            help="Also without TLS, where the server is this machine.",
        ),
    )


def server_options(command: _Command) -> _Command:
    """Adds the same; the command gets a client as its first argument."""

    @functools.wraps(command)
    def connected(connection: Connection, *arguments: object, **options: object) -> None:
        with connection.open() as client:
            command(client, *arguments, **options)

    return connection_options(connected)


def array_options(command: _Command) -> _Command:
    """Adds what every command that moves an array takes; the command gets its files as a positional argument."""

    @functools.wraps(command)
    def prepared(**options: object) -> None:
        from tensor_reshape.cli.files import ArrayFiles  # noqa: PLC0415 - it takes numpy

        names = ("source", "output", "data_type", "as_json", "progress")
        files = ArrayFiles(**{name: options.pop(name) for name in names})  # type: ignore[arg-type] # click's work
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
            help="A file: .npy, .npz, .safetensors, each of the last two with :NAME where wanted; or - for a pipe.",
        ),
        click.option(
            "--data-type",
            type=DataTypeName(),
            help="What .npy cannot name: bf16, the 8-bit floats, and what is smaller than a byte.",
        ),
        SPECIAL_ZERO_OPTION,
        EXPECT_OPTION,
        JSON_OPTION,
        click.option(
            "--progress/--no-progress",
            default=True,
            show_default=True,
            help="Whether a terminal shows how far a long transfer is.",
        ),
    )


def _file_option(flag: str, text: str) -> Callable[[_Command], _Command]:
    # Not TENSOR_RESHAPE_TLS_...: those are the server's own files, and a container has both.
    variable = f"TENSOR_RESHAPE_CLIENT_{flag.removeprefix('--').replace('-', '_').upper()}"
    return click.option(flag, type=_FILE, envvar=variable, help=text)


def _note(value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Returns the text of an option, and writes it down for whoever has to show what is wrong with it."""
    if ctx is not None and param is not None and isinstance(ctx.obj, dict):
        ctx.obj[str(param.name)] = str(value)
    return str(value)


def _add_options(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):  # the last decorator is the first in the help
        command = option(command)
    return command
