"""Arrays that are read: from `.npy`, members of `.npz` and `.safetensors`, and pipes.

Laws:

- A file is mapped, not read. What is compressed or comes through a pipe is held whole.
- Whatever a file says, the worst is an error that names it. What is pickled is never loaded.
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
from tensor_reshape.cli.npy_headers import Placement, read_elements, read_npy
from tensor_reshape.cli.npz_members import read_npz
from tensor_reshape.cli.safetensors_headers import read_safetensors
from tensor_reshape.wire.arrays import Array

# What numpy, zipfile, json and the system raise of files that are damaged, or made to do damage.
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
    """An array that was opened.

    Attributes:
        array: the array, read-only where it is mapped.
    """

    def __init__(
        self, array: Array, file: IO[bytes] | None = None, mapping: Mapping | None = None, start: int = 0
    ) -> None:
        """Keeps where the array is: a file that is mapped, and where its elements start there."""
        self.array = array
        self._file, self._mapping, self._start = file, mapping, start
        self._state = file and _find_state(file)

    def give_back(self, arrived: int) -> None:
        """Gives the memory of the elements back that have travelled."""
        if self._mapping is not None:
            self._mapping.give_back(self._start + arrived)

    def check_unchanged(self) -> None:
        """Refuses a file that was changed since it was opened.

        Raises:
            click.ClickException: it was.
        """
        if self._file is not None and _find_state(self._file) != self._state:
            message = f"{self._file.name} changed while it was read, so nothing was written"
            raise click.ClickException(message)


@contextmanager
def open_source(text: str) -> Iterator[Source]:
    """Opens the array that a text names.

    Raises:
        click.ClickException: it cannot be read, or is none.
    """
    location = read_location(text)
    with open_bytes(text, location.path) as file:
        try:
            source = _read_mapped(file, location) if is_regular(file) else _read_pipe(file, location)
        except _UNREADABLE as error:
            message = f"{text} is not a readable .{location.format} file: {' '.join(str(error).split())}"
            raise click.ClickException(message) from error
        yield source


@contextmanager
def open_bytes(text: str, path: str) -> Iterator[IO[bytes]]:
    """Opens a file, or standard input ("-").

    Raises:
        click.ClickException: it cannot be opened.
    """
    if path == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except (OSError, ValueError) as error:  # ValueError: of a name that has a null byte
            reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
            message = f"{text} cannot be read: {reason}"
            raise click.ClickException(message) from error
        yield file


def read_array(text: str) -> Array:
    """Reads one array whole, for what is small: a target.

    Raises:
        click.ClickException: it cannot be read, or is none.
    """
    with open_source(text) as source:
        return np.array(source.array)


def is_regular(file: IO[bytes]) -> bool:
    """Whether it is a file on a disk: no pipe, no device."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except io.UnsupportedOperation:  # what stands for standard input in a test
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
        raise ValueError(message)
    # Enough for the longest header that numpy reads: a pipe cannot be read twice, nor its position asked for.
    head = file.read(_HEAD_BYTES)
    placement = read_npy(io.BytesIO(head))
    return Source(read_elements(placement, file, head[placement.offset :]))


def _find_state(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns
