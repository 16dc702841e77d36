"""The commands that call a server, and the command that prints a completion script for a shell."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from tensor_reshape.cli.consoles import find_console
from tensor_reshape.cli.options import JSON_OPTION, LOCAL_SERVER_OPTION, SHAPE, array_options, server_options
from tensor_reshape.cli.parameter_types import TargetArgument
from tensor_reshape.client import ServiceError
from tensor_reshape.rules.errors import escape_unprintable
from tensor_reshape.rules.sizes import format_size

if TYPE_CHECKING:
    from rich.console import Console

    from tensor_reshape.cli.files import ArrayFiles
    from tensor_reshape.client import Client, ServerInfo
    from tensor_reshape.wire.arrays import Array

_EPILOG = "Without --timeout, the call may take 30 seconds, and one more second for each 4 MiB of the array."

_TARGET = TargetArgument()
_PROGRAM = "tensor-reshape"
_VARIABLE = "_TENSOR_RESHAPE_COMPLETE"  # click derives the name of this variable from the name of the program


@click.command()
@click.option(
    "--service",
    help="The full name of a gRPC service, or an empty text for the whole server. Default: the reshape service.",
)
@JSON_OPTION
@partial(server_options, server_option=LOCAL_SERVER_OPTION)
def health(client: "Client", *, service: str | None, as_json: bool) -> None:
    """Show the health of a server. The exit code is 0 only if the status is SERVING."""
    try:
        status = client.check_health() if service is None else client.check_health(service)
    except ServiceError as error:
        if error.code.name != "NOT_FOUND":
            raise
        from tensor_reshape.wire.methods import SERVICE  # noqa: PLC0415 - it imports protobuf

        message = f"the server reports no health for the service {service!r}: use {SERVICE}, or '' for the whole server"
        raise click.ClickException(message) from None
    click.echo(json.dumps({"status": status.name}) if as_json else status.name)
    if status.name != "SERVING":  # there is no error message, because a health probe only needs the exit code
        raise click.exceptions.Exit(1)


@click.command()
@JSON_OPTION
@server_options
def info(client: "Client", *, as_json: bool) -> None:
    """Show the version of a server, its limits, and what each operation accepts."""
    facts = _list_facts(client.server_info())
    console = None if as_json else find_console(sys.stdout)
    if console is None:
        click.echo(json.dumps(facts) if as_json else "\n".join(_write_facts(facts)))
    else:
        _draw_facts(console, facts)


def _list_facts(server: "ServerInfo") -> dict[str, Any]:
    """Returns the facts about a server as a dictionary for JSON."""
    return {
        "version": server.version,
        **asdict(server.limits),
        "features": sorted(feature.name.lower() for feature in server.features),
        "operations": {
            name: {
                "max_rank": one.max_rank,
                "data_types": list(map(str, sorted(one.data_types))),
                "shape_data_types": list(map(str, sorted(one.shape_data_types))),
            }
            for name, one in server.operations.items()
        },
    }


def _write_facts(facts: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yields a line of text for each fact about a server. Sizes in bytes have a unit."""
    for name, value in facts.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _write_facts(value, indent + "  ")
        elif name.endswith("_bytes"):
            yield f"{indent}{name}: {format_size(value)}"
        else:
            text = ", ".join(value) if isinstance(value, list) else str(value)
            yield f"{indent}{name}: {escape_unprintable(text)}"


def _draw_facts(console: "Console", facts: Mapping[str, Any]) -> None:
    """Draws a table of the facts about a server, with a section for each operation."""
    from rich.table import Column, Table  # noqa: PLC0415 - plain output does not need it

    table = Table(Column(overflow="fold"), Column(overflow="fold"), show_header=False)
    for name, value in facts.items():
        for key, fact in value.items() if isinstance(value, dict) else [(name, value)]:
            if isinstance(fact, dict):
                table.add_section()
                table.add_row(key, style="bold")
            for line in _write_facts(fact if isinstance(fact, dict) else {key: fact}):
                table.add_row(*line.split(": ", 1))
    console.print(table)


@click.command(epilog=_EPILOG)
@click.option("--shape", type=SHAPE, required=True, help="The requested shape, for example 0,-1.")
@array_options
@server_options
def static(client: "Client", files: "ArrayFiles", **options: Any) -> None:
    """Execute StaticReshape on a file."""
    files.reshape(client.static_reshape, **options)


@click.command(epilog=_EPILOG)
@click.option(
    "--shape", type=_TARGET, required=True, help="The requested shape, for example 0,-1, or @FILE with an i32 array."
)
@array_options
@server_options
def dynamic(client: "Client", files: "ArrayFiles", **options: Any) -> None:
    """Execute DynamicReshape on a file."""
    files.reshape(client.dynamic_reshape, **options)


@click.command(epilog=_EPILOG)
@click.option(
    "--shape",
    type=_TARGET,
    required=True,
    help="The requested shape, for example 0,-1, or @FILE with an integer array.",
)
@click.option(
    "--dims",
    type=SHAPE,
    help="The shape of packed input: INPUT and the output then contain packed bytes instead of an array file. "
    "Requires a --data-type below one byte.",
)
@array_options
@server_options
def reshape(
    client: "Client", files: "ArrayFiles", *, shape: "Sequence[int] | Array", dims: Sequence[int] | None, **options: Any
) -> None:
    """Execute Reshape-1 of OpenVINO on a file, or on packed bytes."""
    if dims is None:
        files.reshape(client.reshape, shape, **options)
    else:
        files.write_packed(client.reshape(files.read_packed(dims), shape, **options))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    For bash, add eval "$(tensor-reshape completion bash)" to ~/.bashrc. For zsh, add
    eval "$(tensor-reshape completion zsh)" to ~/.zshrc, below compinit. For fish, run
    tensor-reshape completion fish > ~/.config/fish/completions/tensor-reshape.fish
    """
    script = get_completion_class(shell)
    # click has a completion class for each allowed shell, so the condition is only for type checkers
    if script is not None:
        click.echo(script(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
