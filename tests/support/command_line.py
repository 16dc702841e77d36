"""The command line as users run it: in a process of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from server_processes import ServerProcess

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)
_RUN_SECONDS = 60
_CORE_LINE = re.compile(r"[IWEF]\d{4} |WARNING: All log messages before")  # the C core of gRPC logs on stderr too


def run_command(*arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> "Outcome":
    """Runs `tensor-reshape` with these arguments to its end."""
    return run_module("tensor_reshape.cli", *arguments, stdin=stdin, env=env)


def ask(server: ServerProcess, command: str, *arguments: str | Path, stdin: bytes = b"") -> "Outcome":
    """Runs a command that asks `server`."""
    return run_command(command, "--server", server.address, *arguments, stdin=stdin)


def run_module(module: str, *arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> "Outcome":
    """Runs `python -m module` with these arguments to its end."""
    process = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=_RUN_SECONDS,
        check=False,
    )
    return Outcome(process)


class Outcome:
    """How a command ended.

    Attributes:
        code: its exit code.
        output: standard output as bytes.
        text: standard output as stripped text, where it is text.
        errors: the lines on standard error that are the project's own.
    """

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.code = process.returncode
        self.output = process.stdout
        self.text = process.stdout.decode(errors="replace").strip()
        lines = process.stderr.decode().splitlines()
        self.errors = [line for line in lines if line and not _CORE_LINE.match(line)]
