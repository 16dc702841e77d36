"""Files that are written whole or not at all.

Laws:

- The file has another name until the last byte is in it, then takes the place of the old one in one step.
- Its room is taken before the first byte comes: a disk that is full is an error then, not SIGBUS in the middle.
- However the work ends, SIGTERM and SIGHUP included, nothing stays but what is whole; only what ends a process at once,
  such as SIGKILL, SIGQUIT and SIGBUS, leaves a `.part`.
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

_FILE_MODE = 0o666  # before the umask, as every new file
_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""SIGHUP is what a terminal that is closed sends, or a connection to it that is lost."""


def is_replaceable(path: str) -> bool:
    """Whether a path is, or will be, a regular file: what is a device, a FIFO or a terminal is written to instead.

    Raises:
        OSError: it is a folder, or cannot be looked at.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - of one that need not be there
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return stat.S_ISREG(mode)


@contextmanager
def create_file(path: str, size: int = 0) -> Iterator[IO[bytes]]:
    """Opens a new file with room for so many bytes, which takes the place of `path` when the block ends well.

    Raises:
        OSError: there is no room, or no right to write there.
    """
    target = Path(path).resolve()  # of a link, the file that it leads to: the link stays
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
    """Writes a file; what is none, such as a FIFO, is written to.

    Raises:
        click.FileError: it cannot be written.
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
    """Takes the room of a file on its disk.

    Raises:
        OSError: there is none.
    """
    if not size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Has the signals that ask a process to end, end the block as an exception, so that it can clean up."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in _END_SIGNALS}
    # What nohup has made the process ignore stays so; on a thread that is not the main one, nobody may decide that.
    is_main = threading.current_thread() is threading.main_thread()
    taken = {number: old for number, old in before.items() if is_main and old != signal.SIG_IGN}
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
