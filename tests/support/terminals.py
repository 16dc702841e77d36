"""Runs programs on a terminal and returns the text that a person would see."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path


def run_on_terminal(
    *command: str | Path, columns: int = 100, env: Mapping[str, str] | None = None, stdout: int | None = None
) -> tuple[int, str]:
    """Runs a program on a terminal with this width. Returns its exit code and its output.

    Args:
        command: the program and its arguments.
        columns: the width of the terminal.
        env: environment variables in addition to those of this process.
        stdout: another file for standard output.
    """
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
    """Returns a text without its colours and styles."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
