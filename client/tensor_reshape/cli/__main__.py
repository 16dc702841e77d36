"""`tensor-reshape`: serve, ask, and reshape `.npy` files."""

import json
import sys
from importlib.metadata import entry_points
from typing import Any

import click

from tensor_reshape.cli.commands import COMMANDS
from tensor_reshape.cli.inference import infer
from tensor_reshape.client import (
    CallTimeoutError,
    InvalidRequestError,
    LimitError,
    PermissionDeniedError,
    ReshapeError,
    TensorReshapeError,
    UnauthenticatedError,
    UnavailableError,
)

_EXIT_CODES: dict[type[TensorReshapeError], int] = {
    InvalidRequestError: 3,
    LimitError: 4,
    UnavailableError: 5,
    CallTimeoutError: 5,
    UnauthenticatedError: 6,
    PermissionDeniedError: 6,
}


@click.group(
    epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 above a limit, 5 no answer, 6 not allowed."
)
@click.version_option(package_name="tensor-reshape")
def commands() -> None:
    """Tensor reshape as oneDNN Graph and OpenVINO define it, on a server."""


def _run_extra(name: str, extra: str, arguments: tuple[str, ...]) -> None:
    """Runs a command that an extra adds."""
    # By its entry point: the server is an extra, and to import it for every other command takes a quarter of a second.
    (entry_point,) = entry_points(group="tensor_reshape.commands", name=name)
    try:
        command = entry_point.load()
    except ModuleNotFoundError as error:
        message = f"{name} is an extra: pip install 'tensor-reshape[{extra}]' (missing: {error.name})"
        raise click.ClickException(message) from None
    command.main(args=list(arguments), prog_name=f"tensor-reshape {name}")


# Whatever follows is the extra's command to read, its --help included.
@commands.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def serve(arguments: tuple[str, ...]) -> None:
    """Start a server; `serve --help` lists its options."""
    _run_extra("serve", "server", arguments)


@commands.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explore(arguments: tuple[str, ...]) -> None:
    """Show the shape explorer in a browser, without a server."""
    _run_extra("explore", "http", arguments)


for command in (infer, *COMMANDS):
    commands.add_command(command)


def main() -> None:
    """Runs one command; whatever goes wrong on purpose is one line and an exit code."""
    try:
        # Not standalone: click would print its errors by itself, in its own form, and exit.
        code = commands.main(prog_name="tensor-reshape", standalone_mode=False)
    except (click.ClickException, TensorReshapeError, OSError) as error:
        _report(error)
        code = _choose_exit_code(error)
    except click.Abort:
        code = 130  # interrupted
    sys.exit(code)


def _choose_exit_code(error: Exception) -> int:
    if isinstance(error, click.ClickException):
        return error.exit_code
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)


def _report(error: Exception) -> None:
    if "--json" in sys.argv:  # not click's own option: the command line may be what could not be read
        click.echo(_format_json(error), err=True)
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        reason = f" [{error.reason}]" if isinstance(error, ReshapeError) else ""
        click.echo(f"Error: {error}{reason}", err=True)


def _format_json(error: Exception) -> str:
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    report: dict[str, Any] = {"error": text}
    if isinstance(error, ReshapeError):
        report.update(reason=error.reason, field=error.field, metadata=error.metadata)
    return json.dumps(report, sort_keys=True)


if __name__ == "__main__":
    main()
