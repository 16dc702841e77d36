"""Programs on a terminal: what they draw there, as a person would see it."""

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
    """Runs a program on a terminal of so many columns; returns its exit code and what it wrote.

    Args:
        command: the program and its arguments.
        columns: the width of the terminal.
        env: besides this process's own.
        stdout: where standard output goes instead.
    """
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    # As on a person's machine, whatever the tests run on: xterm, and nothing that says otherwise.
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
    except OSError:  # EIO: nobody has it open any more
        return b""


def strip_styles(text: str) -> str:
    """Returns what is left of a text without its colours and its weights."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
