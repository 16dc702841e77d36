"""Starts the command line program `tensor-reshape`.

Invariant: a module that only one command needs is imported only if that command runs. The package grpc is also imported
only by commands that need it, because `serve` makes decisions before it imports grpc.
"""

import sys

import click

from tensor_reshape.cli.lazy_commands import LazyCommand, LazyGroup
from tensor_reshape.cli.reports import choose_exit_code, report
from tensor_reshape.rules.errors import TensorReshapeError

_ROWS: dict[str, tuple[str, ...]] = {
    "check": ("Check the Reshape nodes of models.", "cli.checks:check"),
    "compare": ("Show what numpy, torch, onnxruntime and OpenVINO do with a reshape.", "cli.compare:compare"),
    "completion": ("Print a script that completes commands in a shell.", "cli.commands:completion"),
    "conformance": (
        "Test an implementation of the operations with the conformance suite.",
        "cli.conformance:conformance",
    ),
    "dynamic": ("Execute DynamicReshape on a file.", "cli.commands:dynamic"),
    "explore": ("Show the shape explorer in a browser until you press Ctrl-C.", "server.http.commands:explore", "http"),
    "health": ("Show the health of a server.", "cli.commands:health"),
    "http": ("Serve tensor reshape over HTTP only.", "server.http.commands:http", "http"),
    "infer": ("Infer the output shape, without data.", "cli.inference:infer"),
    "info": ("Show the version of a server, its limits, and what each operation accepts.", "cli.commands:info"),
    "reshape": ("Execute Reshape-1 of OpenVINO on a file.", "cli.commands:reshape"),
    "serve": ("Serve tensor reshape over gRPC.", "server.__main__:serve", "server"),
    "static": ("Execute StaticReshape on a file.", "cli.commands:static"),
}
COMMANDS = tuple(
    LazyCommand(name, summary, f"tensor_reshape.{location}", *extra)
    for name, (summary, location, *extra) in _ROWS.items()
)


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},  # each command inherits these option names
    epilog=(
        "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 rejected by the rules, 4 above a limit, 5 no response, "
        "6 not permitted."
    ),
)
@click.version_option(package_name="tensor-reshape")
def commands() -> None:
    """Start and use a server that reshapes tensors as oneDNN Graph and OpenVINO define it."""


def main() -> None:
    """Runs one command, prints or draws its error, and sets the exit code.

    After an unexpected error, the function looks for a package that is missing or has a wrong version. If it finds one,
    it reports this package instead.
    """
    texts: dict[str, str] = {}  # the parameter types store the text of each option in this dict
    try:
        # The standalone mode of click is off, because click would print errors in its own form and exit.
        code = commands.main(prog_name="tensor-reshape", standalone_mode=False, obj=texts)
    except (click.ClickException, TensorReshapeError, OSError) as error:
        report(error, texts)
        code = choose_exit_code(error)
    except click.Abort:
        code = 130  # the usual exit code after Ctrl-C
    except Exception:
        from tensor_reshape.runtime.requirements import describe_unmet_requirements  # noqa: PLC0415 - a slow import

        unmet = describe_unmet_requirements()
        if not unmet:
            raise
        report(click.ClickException(unmet), texts)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
