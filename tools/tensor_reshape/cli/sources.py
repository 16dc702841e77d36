"""Reads arrays from `.npy` files, members of `.npz` and `.safetensors` files, and pipes.

- Plain files are mapped into memory instead of read. Compressed members and pipes are read into memory as a whole.
- A damaged or malicious file only causes an error that names the file. The command never loads pickled data.
"""

import io
import os
import stat
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click
import numpy as np

from tensor_reshape.cli.locations import Location, read_location
from tensor_reshape.cli.mappings import Mapping
from tensor_reshape.cli.npy_headers import FormatError, Placement, read_elements, read_npy
from tensor_reshape.cli.npz_members import MemberError, read_npz
from tensor_reshape.cli.safetensors_headers import read_safetensors
from tensor_reshape.wire.arrays import Array

# For damaged or malicious files, numpy, zipfile, json and the system raise these exceptions.
_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    OverflowError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
    tokenize.TokenError,
    TypeError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
)


_HEAD_BYTES = 16 * 1024


class Source:
    """An open array.

    Attributes:
        array: the array, which is read-only if its file is mapped.
    """

    def __init__(
        self, array: Array, file: IO[bytes] | None = None, mapping: Mapping | None = None, start: int = 0
    ) -> None:
        """Stores the array, its mapped file, and the position of its elements in the file."""
        self.array = array
        self._file, self._mapping, self._start = file, mapping, start
        self._state = file and _find_state(file)

    def give_back(self, arrived: int) -> None:
        """Releases the memory of elements that have been sent."""
        if self._mapping is not None:
            self._mapping.give_back(self._start + arrived)

    def check_unchanged(self) -> None:
        """Checks that the file has not changed since it was opened.

        Raises:
            click.ClickException: the file has changed.
        """
        if self._file is not None and _find_state(self._file) != self._state:
            message = f"{self._file.name} changed while it was read, so nothing was written"
            raise click.ClickException(message)


@contextmanager
def open_source(text: str) -> Iterator[Source]:
    """Opens the array at a location that the user has named.

    Raises:
        click.ClickException: the input cannot be read, or is not an array.
    """
    location = read_location(text)
    with open_bytes(text, location.path) as file:
        try:
            source = _read_mapped(file, location) if is_regular(file) else _read_pipe(file, location)
        except MemberError as error:
            message = f"{location.path} {error}"
            raise click.ClickException(message) from None
        except _UNREADABLE as error:
            name = "standard input" if location.is_pipe else text
            message = f"{name} is not a readable .{location.format} file: {_explain(error)}"
            raise click.ClickException(message) from error
        yield source


@contextmanager
def open_bytes(text: str, path: str) -> Iterator[IO[bytes]]:
    """Opens a file, or standard input ("-").

    Raises:
        click.ClickException: the file cannot be opened.
    """
    if path == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except (OSError, ValueError) as error:
            message = f"{text} cannot be read: {_explain(error)}"
            raise click.ClickException(message) from error
        yield file


def _explain(error: Exception) -> str:
    """Returns why a file cannot be read. The texts of Python and numpy are not shown, because they are about code."""
    if isinstance(error, FormatError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "there is not enough memory" if isinstance(error, MemoryError) else "its name or its contents are invalid"


def read_array(text: str) -> Array:
    """Reads a whole small array, such as a requested shape.

    Raises:
        click.ClickException: the input cannot be read, or is not an array.
    """
    with open_source(text) as source:
        return np.array(source.array)


def is_regular(file: IO[bytes]) -> bool:
    """Whether `file` is a file on a disk, as opposed to a pipe or a device."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    # Some replacements of standard input in tests have no file descriptor and raise this error.
    except io.UnsupportedOperation:
        return False


def _read_mapped(file: IO[bytes], location: Location) -> Source:
    found = _find(file, location)
    if not isinstance(found, Placement):
        return Source(found, file)
    mapping = Mapping(file)
    return Source(found.view(mapping.buffer), file, mapping, found.offset)


def _find(file: IO[bytes], location: Location) -> Placement | Array:
    if location.format == "npz":
        return read_npz(file, location.member)
    return read_safetensors(file, location.member) if location.format == "safetensors" else read_npy(file)


def _read_pipe(file: IO[bytes], location: Location) -> Source:
    if location.format != "npy":
        message = "an .npz or .safetensors input must be a file, not a pipe"
        raise FormatError(message)
    # A pipe has no position and cannot be read twice. The first read is therefore long enough for the longest header
    # that numpy accepts.
    head = file.read(_HEAD_BYTES)
    placement = read_npy(io.BytesIO(head))
    return Source(read_elements(placement, file, head[placement.offset :]))


def _find_state(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns
