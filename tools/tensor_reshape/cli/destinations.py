"""Writes arrays to `.npy`, `.npz` and `.safetensors` files, and to pipes. A file is written completely or not at all.

- The command writes a `.npy` or `.safetensors` file while the response arrives, so the array does not have to fit into
  memory. If the output is an `.npz` archive, a pipe or a device, the command keeps the whole array in memory.
- An output file has a temporary name until it is complete. The complete file then replaces the old file in one step.
- Disk space is reserved before the first byte arrives, so that a full disk causes an error at the start instead of
  SIGBUS later.
- No incomplete file remains after an error, SIGTERM or SIGHUP. Only signals that end a process at once, such as
  SIGKILL, SIGQUIT and SIGBUS, leave a `.part` file.
"""

import errno
import io
import os
import secrets
import signal
import stat
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from types import FrameType
from typing import IO, Any

import click
import numpy as np

from tensor_reshape.cli.sources import (
    DEFAULT_MEMBER,
    FormatError,
    Location,
    MappedMemory,
    build_safetensors,
    check_npz_size,
    report_faults,
)
from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.wire.arrays import DTYPES, UNNAMED_IN_FILES, Array, view_bytes

_ARCHIVE_BYTES = 256 * 1024  # an archive has headers, and contains the name of its member (up to 64 KiB) twice

GiveBack = Callable[[int], None]
Fill = Callable[[Array | None, GiveBack], Array]
"""A function that fills the given array, or creates an array if the argument is None.

Its second argument is a function to which it passes the number of bytes that have arrived.
"""

_FILE_MODE = 0o666  # the mode of a new file before the umask is applied
_END_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""SIGHUP is sent when a terminal is closed or its connection is lost."""


def write_array(location: Location, data_type: DataType, dims: Sequence[int], fill: Fill) -> None:
    """Writes an array to a location. The function `fill` provides the elements."""
    with report_faults(location.path, "written", "its name is invalid", (OSError, ValueError)):
        is_npy = location.format != "safetensors"
        header = build_npy(data_type, dims) if is_npy else build_safetensors(data_type, dims, location.member)
        size = prod(dims) * DTYPES[data_type].itemsize
        if location.is_pipe or not is_replaceable(location.path):
            if location.format == "npz":
                raise FormatError("an archive cannot be written to a pipe or a device: name a file")
            array = fill(None, lambda _arrived: None)
            _write_stream(location, header, view_bytes(array).data)
        elif not location.path.endswith(f".{location.format}"):
            message = (
                f"{location.path} must end in .npy, .npz or .safetensors, because the extension selects the format"
            )
            raise click.BadParameter(message, param_hint="'--output' / '-o'")
        elif location.format == "npz":
            _write_archive(location, header, size, fill)
        else:
            with create_file(location.path, len(header) + size) as file:
                file.write(header)
                file.flush()
                mapped: np.memmap[Any, Any] = np.memmap(file, DTYPES[data_type], "r+", len(header), tuple(dims))
                fill(mapped, MappedMemory(mapped).give_back)
                del mapped  # the mapping is closed, because Windows cannot rename a mapped file


def write_bytes(location: Location, raw: memoryview) -> None:
    """Writes bytes to a location, without a header."""
    with report_faults(location.path, "written", "its name is invalid", (OSError, ValueError)):
        if location.is_pipe or not is_replaceable(location.path):
            _write_stream(location, b"", raw)
        else:
            with create_file(location.path) as file:
                file.write(raw)


def build_npy(data_type: DataType, dims: Sequence[int]) -> bytes:
    """Returns the .npy header of a row-major array."""
    dtype = DTYPES[data_type]
    # If the .npy format has no name for a type, the type is written as raw bytes. For f8e5m2, numpy would write a name
    # that it cannot read.
    name = f"|V{dtype.itemsize}" if data_type in UNNAMED_IN_FILES else np.lib.format.dtype_to_descr(dtype)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": name, "fortran_order": False, "shape": tuple(dims)})
    return buffer.getvalue()


def _write_archive(location: Location, header: bytes, size: int, fill: Fill) -> None:
    check_npz_size(len(header) + size)
    with create_file(location.path, size + _ARCHIVE_BYTES) as file:
        array = fill(None, lambda _arrived: None)
        with (
            zipfile.ZipFile(file, "w") as archive,
            archive.open(f"{location.member or DEFAULT_MEMBER}.npy", "w", force_zip64=True) as stream,
        ):
            stream.write(header)
            stream.write(view_bytes(array).data)
        file.truncate(file.tell())


def _write_stream(location: Location, header: bytes, raw: memoryview) -> None:
    if location.is_pipe:
        sys.stdout.buffer.write(header)
        sys.stdout.buffer.write(raw)
        return
    with Path(location.path).open("wb") as stream:
        stream.write(header)
        stream.write(raw)


def is_replaceable(path: str) -> bool:
    """Whether a path is a regular file, or will be one after it is written.

    Devices, FIFOs and terminals are not regular files and are written directly.
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
    """Opens a new file and reserves its disk space. The file replaces `path` if the block ends without an exception."""
    # A symbolic link is resolved, so that the command replaces the target of the link and not the link.
    target = Path(path).resolve()
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    with ended_by_signals():
        file = os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE), "r+b")
        try:
            with file:
                if mode is not None:
                    part.chmod(mode)
                reserve(file, size)
                yield file
            part.replace(target)  # `part` is closed here, because Windows cannot rename an open file
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise


def write_file(path: Path, raw: bytes) -> None:
    """Writes a file completely or not at all. A FIFO or a device is written directly, without a temporary file."""
    try:
        if is_replaceable(str(path)):
            with create_file(str(path)) as file:
                file.write(raw)
        else:
            path.write_bytes(raw)
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from None


def reserve(file: IO[bytes], size: int) -> None:
    """Reserves `size` bytes of disk space for a file."""
    if not size:
        return
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.truncate(size)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP raise an exception in the block, so that incomplete files can be removed."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    # If a signal is already ignored, for example because of nohup, it stays ignored. Python lets only the main thread
    # set signal handlers.
    is_main = threading.current_thread() is threading.main_thread()
    taken = {one: old for one in _END_SIGNALS if is_main and (old := signal.getsignal(one)) != signal.SIG_IGN}
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
