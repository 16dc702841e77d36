"""The options and arguments of the command line for shapes, data types and servers.

Invariant: nothing here imports numpy or grpc before an option needs it, so help and completion do not.
"""

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from tensor_reshape.client import use_fast_polling
from tensor_reshape.client.defaults import DEFAULT_TARGET, DEFAULT_TIMEOUT_SECONDS
from tensor_reshape.client.targets import check_target
from tensor_reshape.rules.dims import AnyDim
from tensor_reshape.rules.dtypes import DataType, find_data_type
from tensor_reshape.rules.errors import InvalidRequestError
from tensor_reshape.rules.operations import OPERATIONS, find_operation
from tensor_reshape.rules.shape_parser import parse_shape, parse_strides, split_items

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from tensor_reshape.client import Client
    from tensor_reshape.wire.arrays import Array

_Command = Callable[..., None]
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}")  # Python converts at most 4,300 digits
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/]+)/*")
_CONNECTION = ("tls", "tls_ca", "tls_certificate", "tls_key", "token_file", "allow_plaintext_token")


class Dims(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Numbers separated by commas, with or without brackets. An empty text is the shape of a scalar."""

    name = "dims"

    def __init__(self, *, unknown: bool) -> None:
        """Accepts ? for an unknown dim if `unknown` is True."""
        self._unknown = unknown

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int | None]:
        """Returns the dims, with None for an unknown one."""
        text = _record(value, param, ctx)
        items = split_items(text)
        if items is None or not all(self._is_dim(item.text) for item in items):
            self.fail(f"{text!r} is not a shape: {self._advise(text)}", param, ctx)
        return tuple(None if item.text == "?" else int(item.text) for item in items)

    def _advise(self, text: str) -> str:
        if text.startswith("@"):
            return "this operation takes only numbers; dynamic and reshape also take a file"
        example = "or ? for any dim, for example 2,3,?" if self._unknown else "for example 2,3,-1"
        return f"write numbers separated by commas, {example}"

    def _is_dim(self, text: str) -> bool:
        return _NUMBER.fullmatch(text) is not None or (text == "?" and self._unknown)


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
            return PartialShape(parse_shape(_record(value, param, ctx), str(self.name)))
        except InvalidRequestError as error:
            raise click.BadParameter(error.message, ctx, param) from error  # its field is the index of the item


class Strides(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """Strides in the notation of `rules.shape_parser`."""

    name = "strides"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Sequence[int]:
        """Returns the strides."""
        try:
            return parse_strides(_record(value, param, ctx), self.name)
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
    """A data type, by its name in the specifications or in numpy."""

    name = "type"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> DataType:
        """Returns the data type."""
        data_type = find_data_type(str(value))
        if data_type is None:
            self.fail(f"{value!r} is not one of {', '.join(map(str, DataType))}", param, ctx)
        return data_type

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the names with this beginning."""
        return _complete(DataType, incomplete)


class OperationName(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """An operation, in any usual spelling."""

    name = "operation"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name of the operation in the SDK."""
        operation = find_operation(str(value))
        if operation is None:
            self.fail(f"{value!r} is not one of {', '.join(OPERATIONS)}", param, ctx)
        return operation.name

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Returns the names with this beginning."""
        return _complete(OPERATIONS, incomplete)


class ServerAddress(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """The address of a server."""

    name = "address"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the address."""
        text = str(value)
        url = _URL.fullmatch(text)
        if url is not None:
            tls = " and add --tls" if url["scheme"] == "https" else ""
            self.fail(f"{text!r} is a URL, but gRPC needs HOST:PORT: write {url['host']}{tls}", param, ctx)
        try:
            return check_target(text)
        except ValueError as error:
            self.fail(str(error).removeprefix("target is "), param, ctx)


class ListenAddress(ServerAddress):
    """The address of a server, or the value of the server's own settings --health-listen and --listen."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the first address, with localhost instead of an address that stands for all interfaces."""
        address = next(iter(str(value).split()), "")
        host, _, port = address.rpartition(":")
        everywhere = host in {"0.0.0.0", "[::]"}  # noqa: S104 - compared, not bound
        return super().convert(f"localhost:{port}" if everywhere else address, param, ctx)


class ArrayPath(click.ParamType):  # type: ignore[type-arg] # a generic in newer releases only
    """A file, a member of one, or - for a pipe."""

    name = "file"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":  # noqa: ARG002
        """Lets the shell complete file names."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

        return [CompletionItem(incomplete, type="file")]


def _complete(names: Iterable[object], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed for completion

    return [CompletionItem(str(name)) for name in names if str(name).startswith(incomplete.lower())]


class NewFile(click.Path):
    """A file to write. A missing folder is reported before the work begins."""

    def __init__(self) -> None:
        """Accepts files, not folders."""
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - of click
        """Returns the path."""
        path = Path(str(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"{path} cannot be written: there is no folder {path.parent}", param, ctx)
        return path


NEW_FILE = NewFile()
SHAPE = Dims(unknown=False)


def _require_flag(_ctx: click.Context, _param: click.Parameter, value: bool | None) -> bool:  # noqa: FBT001 - of click
    if value is None:
        message = (
            "--special-zero or --no-special-zero is required: a 0 in the shape then copies the data dim with the same "
            "index, or is the dim 0"
        )
        raise click.UsageError(message)
    return value


SPECIAL_ZERO_OPTION = click.option(
    "--special-zero/--no-special-zero",
    default=None,
    callback=_require_flag,
    help="A 0 in the target shape copies the data dim with the same index, or is the dim 0. Required.",
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
    """Makes small calls faster and silences gRPC's own log, unless grpc is already imported, for example by a test."""
    if "grpc" not in sys.modules:
        # gRPC logs each failed TLS handshake. The error of the command has the cause.
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
"""Without --server, the server on this machine that the same variables configure, as in a container."""


def connection_options(command: _Command, server_option: Callable[[_Command], _Command] = _SERVER_OPTION) -> _Command:
    """Adds the connection options. The command gets a `Connection` as its first argument."""

    @functools.wraps(command)
    def prepared(*arguments: object, server: str, timeout: float, **options: object) -> None:
        # A command gets only its own options.
        connection = {name: options.pop(name) for name in _CONNECTION}
        command(Connection(server, timeout, connection), *arguments, **options)

    return _add_options(
        prepared,
        server_option,
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=DEFAULT_TIMEOUT_SECONDS,
            show_default=True,
            help="The timeout of each call, in seconds. By default, a file adds one second for each 4 MiB.",
        ),
        click.option(
            "--tls",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_TLS",
            help="Connect with TLS, and trust the default certificate authorities.",
        ),
        _build_file_option("--tls-ca", "Connect with TLS, and trust the certificate authorities in this PEM file."),
        _build_file_option("--tls-certificate", "The certificate chain of the client, a PEM file."),
        _build_file_option("--tls-key", "The private key of the client, a PEM file."),
        _build_file_option("--token-file", "Send the bearer token that this file contains. Requires TLS."),
        click.option(
            "--allow-plaintext-token",
            is_flag=True,
            envvar="TENSOR_RESHAPE_CLIENT_ALLOW_PLAINTEXT_TOKEN",
            help="Send the token without TLS too, but only to a server on this machine.",
        ),
    )


def server_options(command: _Command, server_option: Callable[[_Command], _Command] = _SERVER_OPTION) -> _Command:
    """Adds the connection options. The command gets a client as its first argument."""

    @functools.wraps(command)
    def connected(connection: Connection, *arguments: object, **options: object) -> None:
        with connection.open() as client:
            command(client, *arguments, **options)

    return connection_options(connected, server_option)


def array_options(command: _Command) -> _Command:
    """Adds the options of commands that reshape an array. The command gets its files as a positional argument."""

    @functools.wraps(command)
    def prepared(**options: object) -> None:
        from tensor_reshape.cli.files import ArrayFiles  # noqa: PLC0415 - it imports numpy

        names = ("source", "output", "data_type", "as_json", "progress")
        given: dict[str, Any] = {name: options.pop(name) for name in names}  # click has converted them
        has_timeout = click.get_current_context().get_parameter_source("timeout") is not ParameterSource.DEFAULT
        files = ArrayFiles(**given, has_timeout=has_timeout)
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


def _build_file_option(flag: str, text: str) -> Callable[[_Command], _Command]:
    # Not TENSOR_RESHAPE_TLS_..., because these are the server's files, and a container may have both.
    variable = f"TENSOR_RESHAPE_CLIENT_{flag.removeprefix('--').replace('-', '_').upper()}"
    return click.option(flag, type=_FILE, envvar=variable, help=text)


def _record(value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
    """Returns the text of an option, and stores it for error messages that show it."""
    if ctx is not None and param is not None and isinstance(ctx.obj, dict):
        ctx.obj[str(param.name)] = str(value)
    return str(value)


def _add_options(command: _Command, *options: Callable[[_Command], _Command]) -> _Command:
    for option in reversed(options):  # decorators are applied from last to first
        command = option(command)
    return command
