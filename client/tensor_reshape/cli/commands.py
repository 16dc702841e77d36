"""The commands that ask a server."""

import json
from collections.abc import Sequence

import click

from tensor_reshape.cli.files import ArrayFiles
from tensor_reshape.cli.parameters import (
    JSON_OPTION,
    SHAPE,
    Target,
    array_options,
    server_options,
)
from tensor_reshape.client import Client, HealthStatus
from tensor_reshape.wire.arrays import Array

_Expect = Sequence[int | None] | None


@click.command()
@click.option("--service", help="The full name of a service; default: the reshape service. Empty: the whole server.")
@JSON_OPTION
@server_options
def health(client: Client, *, service: str | None, as_json: bool) -> None:
    """Ask whether a server serves; exit code 0 only if it does."""
    status = client.check_health() if service is None else client.check_health(service)
    click.echo(json.dumps({"status": status.name}) if as_json else status.name)
    if status is not HealthStatus.SERVING:  # so a probe needs the exit code alone
        raise click.exceptions.Exit(1)


@click.command()
@click.option("--shape", type=SHAPE, required=True, help="The target: 0,-1.")
@array_options
@server_options
def static(
    client: Client, files: ArrayFiles, *, shape: Sequence[int], special_zero: bool, expected_shape: _Expect
) -> None:
    """Execute StaticReshape on a .npy file."""
    files.write(client.static_reshape(files.read(), shape, special_zero=special_zero, expected_shape=expected_shape))


@click.command()
@click.option("--shape", type=Target(), required=True, help="The target: 0,-1, or @FILE.npy with an i32 array.")
@array_options
@server_options
def dynamic(
    client: Client, files: ArrayFiles, *, shape: Sequence[int] | Array, special_zero: bool, expected_shape: _Expect
) -> None:
    """Execute DynamicReshape on a .npy file."""
    files.write(client.dynamic_reshape(files.read(), shape, special_zero=special_zero, expected_shape=expected_shape))


@click.command()
@click.option("--shape", type=Target(), required=True, help="The target: 0,-1, or @FILE.npy with an integer array.")
@click.option(
    "--dims",
    type=SHAPE,
    help="INPUT is the packed bytes of a tensor of this shape, and no .npy file; so is the output. Goes with any "
    "--data-type below one byte.",
)
@array_options
@server_options
def reshape(
    client: Client,
    files: ArrayFiles,
    *,
    shape: Sequence[int] | Array,
    dims: Sequence[int] | None,
    special_zero: bool,
    expected_shape: _Expect,
) -> None:
    """Execute Reshape-1 of OpenVINO on a .npy file, or on packed bytes."""
    if dims is None:
        files.write(client.reshape(files.read(), shape, special_zero=special_zero, expected_shape=expected_shape))
    else:
        tensor = files.read_packed(dims)
        files.write_packed(client.reshape(tensor, shape, special_zero=special_zero, expected_shape=expected_shape))


COMMANDS = (health, static, dynamic, reshape)
"""All of them, for the group that they belong to."""
