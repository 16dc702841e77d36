"""Runs the command line in this process, which imports modules only once, or in a separate process, as users do.

Tests that need a separate process, for example `cli/test_main`, use `run_module`.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from server_processes import ServerProcess
from tensor_reshape.cli.__main__ import main

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)
PROGRAM = Path(sys.executable).parent / "tensor-reshape"
NOBODY = ("--server", "127.0.0.1:1", "--timeout", "0.2")
"""Options with the address of a server that does not exist."""

_RUN_SECONDS = 60
_CORE_LINE = re.compile(r"[IWEF]\d{4} |WARNING: All log messages before")  # lines of gRPC's core on stderr


def run_command(*arguments: str | Path, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> "Outcome":
    """Runs `tensor-reshape` with these arguments in this process."""
    argv = ["tensor-reshape", *map(str, arguments)]
    with CliRunner().isolation(stdin, env) as (output, errors, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            main()
        sys.stdout.flush()
    return Outcome(int(end.value.code or 0), output.getvalue(), errors.getvalue())


def ask(server: ServerProcess, command: str, *arguments: str | Path, stdin: bytes = b"") -> "Outcome":
    return run_command(command, "--server", server.address, *arguments, stdin=stdin)


def run_module(module: str, *arguments: str | Path, stdin: bytes = b"", env: dict[str, str] | None = None) -> "Outcome":
    """Runs `python -m module` with these arguments in a separate process."""
    process = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env={**os.environ, **(env or {})},
        timeout=_RUN_SECONDS,
        check=False,
    )
    return Outcome(process.returncode, process.stdout, process.stderr)


class Outcome:
    def __init__(self, code: int, output: bytes, errors: bytes) -> None:
        self.code = code  # the exit code
        self.output = output  # standard output as bytes
        self.text = output.decode(errors="replace").strip()  # standard output as stripped text, if it is text
        lines = errors.decode().splitlines()
        # the lines on standard error, without those of gRPC's core
        self.errors = [line for line in lines if line and not _CORE_LINE.match(line)]


def run_on_terminal(
    *command: str | Path, columns: int = 100, env: Mapping[str, str] | None = None, stdout: int | None = None
) -> tuple[int, str]:
    """Runs a program on a terminal with this width. Returns its exit code and its output."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    # An xterm without other settings, independent of the terminal of the tests.
    quiet = {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "CI", "TTY_COMPATIBLE"}
    own = {name: value for name, value in os.environ.items() if name not in quiet}
    with subprocess.Popen(
        list(map(str, command)),
        stdin=inner,
        stdout=inner if stdout is None else stdout,
        stderr=inner,
        env={**own, "TERM": "xterm-256color", **(env or {})},
        close_fds=True,
    ) as process:
        os.close(inner)
        text = b"".join(iter(lambda: _read(outer), b"")).decode()
    os.close(outer)
    return process.returncode, text.replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the terminal was closed
        return b""


def strip_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
