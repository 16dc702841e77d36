"""`tensor-reshape`: serve, ask, and reshape files.

Law: nothing that a command needs is imported before it is known which command runs; grpc in particular, for which the
server has decisions of its own to make first.
"""

import sys

import click

from tensor_reshape.cli.lazy_commands import LazyCommand, LazyGroup, find_extra, find_module
from tensor_reshape.cli.reports import choose_exit_code, report
from tensor_reshape.rules.errors import TensorReshapeError

COMMANDS = (
    LazyCommand("check", "Check the Reshape nodes of an ONNX model.", find_module("checks:check", "onnx")),
    LazyCommand("completion", "Print what has a shell complete commands.", find_module("completions:completion")),
    LazyCommand(
        "conformance",
        "Hold an implementation of the operations against the conformance kit.",
        find_module("conformance:conformance"),
    ),
    LazyCommand("dynamic", "Execute DynamicReshape on a file.", find_module("commands:dynamic")),
    LazyCommand("explore", "Show the shape explorer in a browser, until Ctrl-C.", find_extra("explore", "http")),
    LazyCommand("health", "Ask whether a server serves.", find_module("commands:health")),
    LazyCommand("infer", "Print the output shape, without data.", find_module("inference:infer")),
    LazyCommand("info", "Ask what a server is.", find_module("commands:info")),
    LazyCommand("reshape", "Execute Reshape-1 of OpenVINO on a file.", find_module("commands:reshape")),
    LazyCommand("serve", "Serve tensor reshape over gRPC.", find_extra("serve", "server")),
    LazyCommand("static", "Execute StaticReshape on a file.", find_module("commands:static")),
)


@click.group(
    cls=LazyGroup,
    commands=COMMANDS,
    epilog=(
        "Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the rules, 4 above a limit, 5 no answer, 6 not allowed."
    ),
)
@click.version_option(package_name="tensor-reshape")
def commands() -> None:
    """Tensor reshape as oneDNN Graph and OpenVINO define it, on a server."""


def main() -> None:
    """Runs one command; whatever goes wrong on purpose is told in one line, or drawn, and an exit code."""
    typed: dict[str, str] = {}  # the types of the options write down here what they read
    try:
        # Not standalone: click would print its errors by itself, in its own form, and exit.
        code = commands.main(prog_name="tensor-reshape", standalone_mode=False, obj=typed)
    except (click.ClickException, TensorReshapeError, OSError) as error:
        report(error, typed)
        code = choose_exit_code(error)
    except click.Abort:
        code = 130  # interrupted
    sys.exit(code)


if __name__ == "__main__":
    main()
