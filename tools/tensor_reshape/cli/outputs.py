"""Writes an output file completely or not at all.

- An output file has a temporary name until it is complete. The complete file then replaces the old file in one step.
- Disk space is reserved before the first byte arrives, so that a full disk causes an error at the start instead of
  SIGBUS later.
- No incomplete file remains after an error, SIGTERM or SIGHUP. Only signals that end a process at once, such as
  SIGKILL, SIGQUIT and SIGBUS, leave a `.part` file.
"""

import errno
import os
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO

import click

_FILE_MODE = 0o666  # this is the mode of a new file before the umask is applied
_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""SIGHUP is sent when a terminal is closed or its connection is lost."""


def is_replaceable(path: str) -> bool:
    """Whether a path is or will be a regular file.

    Devices, FIFOs and terminals are not regular files and are written directly.

    Raises:
        OSError: the path is a directory, or cannot be accessed.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - the file may not exist
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return stat.S_ISREG(mode)


@contextmanager
def create_file(path: str, size: int = 0) -> Iterator[IO[bytes]]:
    """Opens a new file with reserved disk space, which replaces `path` when the block ends without an exception.

    Raises:
        OSError: there is not enough disk space, or no permission.
    """
    # A symbolic link is resolved, so that the command replaces the target of the link and not the link.
    target = Path(path).resolve()
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    with ended_by_signals(), os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE), "r+b") as file:
        try:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            reserve(file, size)
            yield file
            file.flush()
            part.replace(target)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


def write_file(path: Path, raw: bytes) -> None:
    """Writes a file. A FIFO or a device is written directly, without a temporary file.

    Raises:
        click.FileError: the file cannot be written.
    """
    try:
        if is_replaceable(str(path)):
            with create_file(str(path)) as file:
                file.write(raw)
        else:
            path.write_bytes(raw)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from None


def reserve(file: IO[bytes], size: int) -> None:
    """Reserves disk space for a file.

    Raises:
        OSError: there is not enough disk space.
    """
    if not size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise an exception in the block, so that the block can remove incomplete files."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in _END_SIGNALS}
    # If a signal is ignored because of nohup, the signal stays ignored. Python lets only the main thread set signal
    # handlers.
    is_main = threading.current_thread() is threading.main_thread()
    taken = {number: old for number, old in before.items() if is_main and old != signal.SIG_IGN}
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
