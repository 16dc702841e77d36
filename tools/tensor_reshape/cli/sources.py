"""Reads arrays from `.npy` files, members of `.npz` and `.safetensors` files, and pipes.

- `.npy` and `.safetensors` files are mapped into memory. Members of `.npz` files and pipes are read into memory as a
  whole, so a member may have at most 1 GiB.
- A damaged or malicious file only causes an error that names the file. The command never loads pickled data.
"""

import io
import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import click
import numpy as np

from tensor_reshape.cli.locations import FormatError, Location, choose_member, read_location
from tensor_reshape.cli.mappings import Mapping, map_array
from tensor_reshape.cli.safetensors_headers import map_safetensors
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.arrays import Array

MAX_NPZ_BYTES = 1024**3
"""The largest member of an `.npz` archive, because members are read and written in memory.

With this limit, a small archive with a member that decompresses without end cannot use all memory.
"""

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile decompresses the other ones without a limit
_SUFFIX = ".npy"
_HEAD_BYTES = 128  # numpy writes the type at the start of the header
_F8E5M2 = b"'descr': '<f1'"  # this type is in files that numpy wrote with ml_dtypes, but numpy does not read it


class _Stream:
    """A stream without a file descriptor, because numpy cannot use the descriptor of a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        """Reads at most `size` bytes, and keeps them until the next call."""
        self.last = self._file.read(size)
        return self.last


class Source:
    """An open array.

    Attributes:
        array: the array, which is read-only if its file is mapped.
    """

    def __init__(self, array: Array, file: IO[bytes] | None = None) -> None:
        """Stores the array, and its file if the file can change."""
        self.array = array
        self._file = file
        self._mapping = Mapping(array) if isinstance(array, np.memmap) else None
        self._state = file and _find_state(file)

    def give_back(self, arrived: int) -> None:
        """Releases the memory of elements that have been sent."""
        if self._mapping is not None:
            self._mapping.give_back(arrived)

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
        with _report_faults(text, "it is damaged, or it does not contain an array of numbers"):
            source = Source(_read_file(file, location), file if _is_regular(file) else None)
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
        with _report_faults(text, "its name is invalid"):
            file = stack.enter_context(Path(path).open("rb"))
        yield file


@contextmanager
def _report_faults(text: str, otherwise: str) -> Iterator[None]:
    """Raises an error of the command line. The texts of Python and numpy are not shown, because they are about code."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, FormatError) else otherwise
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
        elif isinstance(error, MemoryError):
            reason = "there is not enough memory"
        message = f"{'standard input' if text == '-' else text} cannot be read: {reason}"
        raise click.ClickException(message) from error


def read_array(text: str) -> Array:
    """Reads a whole small array, such as a requested shape.

    Raises:
        click.ClickException: the input cannot be read, or is not an array.
    """
    with open_source(text) as source:
        return np.array(source.array)


def _is_regular(file: IO[bytes]) -> bool:
    """Whether `file` is a file on a disk, as opposed to a pipe or a device."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    # Some replacements of standard input in tests have no file descriptor and raise this error.
    except io.UnsupportedOperation:
        return False


def _read_file(file: IO[bytes], location: Location) -> Array:
    if location.format != "npy" and not _is_regular(file):
        message = "an .npz or .safetensors input must be a file, not a pipe"
        raise FormatError(message)
    if location.format == "npz":
        return _read_npz(file, location.member)
    if location.format == "safetensors":
        return map_safetensors(file, location.member)
    return _map_npy(file) if _is_regular(file) else _read_npy(file)


def _map_npy(file: IO[bytes]) -> Array:
    begin = file.tell()
    try:
        version = np.lib.format.read_magic(file)
        is_old = version == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if is_old else np.lib.format.read_array_header_2_0
        dims, is_fortran, dtype = read_header(file)
    except ValueError:
        file.seek(begin)
        _check_type(file.read(_HEAD_BYTES))
        raise
    if dtype.hasobject:
        raise ValueError  # only a pickle could have the objects
    return map_array(file, dtype, file.tell(), dims, "F" if is_fortran else "C")


def _read_npz(file: IO[bytes], member: str) -> Array:
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]
        name = choose_member(names, member)
        info = archive.getinfo(name + _SUFFIX)
        if info.compress_type not in _COMPRESSIONS:
            message = f"{name} has a compression that numpy does not use"
            raise FormatError(message)
        check_npz_size(info.file_size)
        with archive.open(info) as stream:
            return _read_npy(stream)


def check_npz_size(size: int) -> None:
    """Checks the size of an array in an archive.

    Raises:
        FormatError: the array is too large.
    """
    if size > MAX_NPZ_BYTES:
        message = f"an array in .npz may have {round_size(MAX_NPZ_BYTES)}, but this one has {size} bytes: use .npy"
        raise FormatError(message)


def _read_npy(file: IO[bytes]) -> Array:
    """Reads a whole array, but nothing after the array."""
    stream = _Stream(file)
    try:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError:
        _check_type(stream.last)
        raise
    return array


def _check_type(header: bytes) -> None:
    if _F8E5M2 in header:
        message = (
            "numpy cannot read the type <f1, which is f8e5m2 of ml_dtypes: save array.view('V1') and add "
            "--data-type f8e5m2, or use .safetensors"
        )
        raise FormatError(message)


def _find_state(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns
