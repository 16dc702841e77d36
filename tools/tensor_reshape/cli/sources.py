"""Reads arrays from `.npy` files, from members of `.npz` and `.safetensors` files, and from pipes.

- A text of the form `FILE.npz:NAME` or `FILE.safetensors:NAME` is the location of one member of the file. Any other
  colon is a part of the file name.
- `.npy` and `.safetensors` files are mapped into memory. Arrays from pipes and members of `.npz` files are read into
  memory as a whole. A member of an `.npz` file may therefore have at most 1 GiB.
- Only the part of a mapped file that is in use stays in memory. During the transfer, the memory of processed parts is
  returned to the system after every `WINDOW_BYTES`.
- If another process truncates a mapped file, the signal SIGBUS ends this process, because the system has no other way
  to report the truncation.
- A damaged or malicious file can only cause an error that names the file. The command never loads pickled data.
- The library `safetensors` copies the elements into numpy arrays and does not support 8-bit floats in numpy. This
  module therefore reads and writes the header of such a file itself. The header is a number of eight bytes, followed by
  JSON. The number is the length of the JSON. The elements of all tensors come after the header. The tests compare this
  module with the library.
"""

import io
import json
import mmap
import os
import re
import stat
import struct
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast

import click
import numpy as np

from tensor_reshape.rules.dtypes import DataType
from tensor_reshape.rules.errors import TensorReshapeError
from tensor_reshape.rules.sizes import round_size
from tensor_reshape.wire.arrays import DTYPES, Array

MAX_NPZ_BYTES = 1024**3
"""The largest member of an `.npz` archive, because members are read and written in memory.

With this limit, a small archive with a member that decompresses without end cannot use all memory.
"""

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # zipfile decompresses other formats without a limit
_SUFFIX = ".npy"
_HEAD_BYTES = 128  # enough for the element type, which numpy writes at the start of the header
_F8E5M2 = b"'descr': '<f1'"  # numpy writes this type for arrays of ml_dtypes' f8e5m2, but cannot read it


PIPE = "-"
DEFAULT_MEMBER = "output"
_MEMBER = re.compile(r"(?P<path>.+?\.(?P<format>npz|safetensors))(?::(?P<member>.*))?", re.DOTALL)
_LISTED = 20  # an error message lists at most 20 members, because the archive of a model may have thousands

WINDOW_BYTES = 32 * 1024 * 1024
"""The size of the part that stays in memory."""

NAMES = {
    DataType.BOOLEAN: "BOOL",
    DataType.F8E4M3: "F8_E4M3",
    DataType.F8E5M2: "F8_E5M2",
    DataType.F8E8M0: "F8_E8M0",
    **{
        data_type: data_type.name
        for data_type in DataType
        if data_type.name in {"I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F16", "BF16", "F32", "F64"}
    },
}
"""The format's name of each data type that numpy can represent."""

_DATA_TYPES = {name: data_type for data_type, name in NAMES.items()}
_LENGTH = struct.Struct("<Q")
_MAX_HEADER_BYTES = 100_000_000  # the library's limit
_METADATA = "__metadata__"


class FormatError(ValueError):
    """The error of a file that is damaged, or whose contents this program cannot read. Its text gives the cause."""


class Location(NamedTuple):
    """The location of an array on the command line.

    Attributes:
        path: the path of the file. The path "-" means standard input or output.
        format: npy, npz or safetensors. The file extension selects the format. In pipes, the format is always npy.
        member: the name of the array in the file, or an empty text if the user has not named an array.
    """

    path: str
    format: str = "npy"
    member: str = ""

    @property
    def is_pipe(self) -> bool:
        """Whether the location is standard input or standard output."""
        return self.path == PIPE


def read_location(text: str) -> Location:
    """Returns the location of an array from the text of a command line argument."""
    found = _MEMBER.fullmatch(text)
    return Location(text) if found is None else Location(found["path"], found["format"], found["member"] or "")


def choose_member(names: list[str], member: str) -> str:
    """Returns the name of the member to read. If the user has not named a member, the file must have only one."""
    if member in names:
        return member
    if not member and len(names) == 1:
        return names[0]
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if not names:
        message = "it contains no array"
    elif member:
        message = f"it has no array {member!r}; it has {listed}"
    else:
        message = f"it has several arrays: add a colon and one of the names {listed}"
    raise FormatError(message)


def map_array(
    file: IO[bytes], dtype: np.dtype[Any], offset: int, dims: Sequence[int], order: Literal["C", "F"] = "C"
) -> np.memmap[Any, Any]:
    """Maps an array of a file into memory, and returns the read-only array."""
    if offset + prod(dims) * dtype.itemsize > os.fstat(file.fileno()).st_size:
        raise ValueError
    return np.memmap(file, dtype, "r", offset, tuple(dims), order)


class MappedMemory:
    """The memory of a mapped array, which can be returned to the system part by part."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        """Creates the object for an array that numpy has mapped."""
        self._map = cast("mmap.mmap", array.base)
        # A mapping starts at a multiple of ALLOCATIONGRANULARITY, so the array may begin later in the mapping.
        self._start = array.offset % mmap.ALLOCATIONGRANULARITY
        self._given = 0

    def give_back(self, arrived: int) -> None:
        """Gives the memory of the first `arrived` bytes back to the system, once it can give back WINDOW_BYTES."""
        end = self._start + arrived
        end -= end % mmap.PAGESIZE
        if end < self._given:  # a smaller `end` means that the transfer has started again
            self._given = 0
        # For a shared mapping, MADV_DONTNEED removes the pages only from this process. Written data stays in the
        # system's cache or in the file, so it can be read again. On Windows, Python has no `madvise`.
        if sys.platform != "win32" and end - self._given >= WINDOW_BYTES:
            self._map.madvise(mmap.MADV_DONTNEED, self._given, end - self._given)
            self._given = end


class _Stream:
    """A wrapper of a file that hides the file descriptor, because numpy cannot use the descriptor of a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        """Reads at most `size` bytes, and keeps them as `last` until the next call."""
        self.last = self._file.read(size)
        return self.last


class OpenArray:
    """An array that a command reads from a file or a pipe.

    Attributes:
        array: the array, which is read-only if its file is mapped.
    """

    def __init__(self, array: Array, file: IO[bytes] | None = None) -> None:
        """Stores the array, and its file. The argument `file` is None if the array comes from a pipe or a device."""
        self.array = array
        self._file = file
        self._mapping = MappedMemory(array) if isinstance(array, np.memmap) else None
        self._state = file and _find_state(file)

    def give_back(self, arrived: int) -> None:
        """Releases the memory of the first `arrived` bytes of a mapped file. These bytes have been sent."""
        if self._mapping is not None:
            self._mapping.give_back(arrived)

    def check_unchanged(self) -> None:
        """Checks that the file has not changed since it was opened."""
        if self._file is not None and _find_state(self._file) != self._state:
            raise click.ClickException(f"{self._file.name} changed while it was read, so nothing was written")


@contextmanager
def open_source(text: str) -> Iterator[OpenArray]:
    """Opens the array at a location that the user has named."""
    location = read_location(text)
    with open_bytes(text, location.path) as file:
        name = "standard input" if text == "-" else text
        with report_faults(name, "read", "it is damaged, or it does not contain an array of numbers"):
            source = OpenArray(_read_file(file, location), file if _is_regular(file) else None)
        yield source


@contextmanager
def open_bytes(text: str, path: str) -> Iterator[IO[bytes]]:
    """Opens a file, or standard input ("-")."""
    if path == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        with report_faults(text, "read", "its name is invalid"):
            file = stack.enter_context(Path(path).open("rb"))
        yield file


@contextmanager
def report_faults(
    name: str, action: str, otherwise: str, kinds: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Turns an exception of the block into an error for the user.

    The texts of Python and numpy are not shown, because they are about code.
    """
    try:
        yield
    except TensorReshapeError:  # some of these errors are also OSErrors, for example the error of a lost connection
        raise
    except kinds as error:
        reason = str(error) if isinstance(error, FormatError) else otherwise
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
        elif isinstance(error, MemoryError):
            reason = "there is not enough memory"
        message = f"{name} cannot be {action}: {reason}"
        raise click.ClickException(message) from error


def read_array(text: str) -> Array:
    """Returns a small array, such as a requested shape, as a whole in memory."""
    with open_source(text) as source:
        return np.array(source.array)


def _is_regular(file: IO[bytes]) -> bool:
    """Whether `file` is a file on a disk, as opposed to a pipe or a device."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    # Tests replace standard input, and some of these replacements have no file descriptor and raise this error.
    except io.UnsupportedOperation:
        return False


def _read_file(file: IO[bytes], location: Location) -> Array:
    if location.format != "npy" and not _is_regular(file):
        raise FormatError("an .npz or .safetensors input must be a file, not a pipe")
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
        raise ValueError  # only a pickle can contain objects, and pickles are never loaded
    return map_array(file, dtype, file.tell(), dims, "F" if is_fortran else "C")


def _read_npz(file: IO[bytes], member: str) -> Array:
    with zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(_SUFFIX) for name in archive.namelist() if name.endswith(_SUFFIX)]
        name = choose_member(names, member)
        info = archive.getinfo(name + _SUFFIX)
        if info.compress_type not in _COMPRESSIONS:
            raise FormatError(f"{name} has a compression that numpy does not use")
        check_npz_size(info.file_size)
        with archive.open(info) as stream:
            return _read_npy(stream)


def check_npz_size(size: int) -> None:
    """Rejects an array in an `.npz` archive if it is larger than MAX_NPZ_BYTES."""
    if size > MAX_NPZ_BYTES:
        message = f"an array in .npz may have {round_size(MAX_NPZ_BYTES)}, but this one has {size} bytes: use .npy"
        raise FormatError(message)


def _read_npy(file: IO[bytes]) -> Array:
    """Reads a whole array in `.npy` format, but no bytes after the array."""
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


def map_safetensors(file: IO[bytes], member: str) -> Array:
    """Maps a tensor of a `.safetensors` file into memory, and returns the read-only array."""
    (length,) = _LENGTH.unpack(_read(file, _LENGTH.size))
    if length > _MAX_HEADER_BYTES:
        raise FormatError(f"the header has {length} bytes, more than the maximum {_MAX_HEADER_BYTES}")
    try:
        header = json.loads(_read(file, length).decode())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise FormatError("the header is not a JSON object")
    record = header[choose_member([name for name in header if name != _METADATA], member)]
    dtype, dims, offset = _read_record(record)
    return map_array(file, dtype, _LENGTH.size + length + offset, dims)


def build_safetensors(data_type: DataType, dims: Sequence[int], member: str) -> bytes:
    """Returns the header of a `.safetensors` file with one tensor."""
    if data_type not in NAMES:
        raise FormatError(f".safetensors has no type {data_type}; use .npy, which stores the raw bytes")
    size = prod(dims) * DTYPES[data_type].itemsize
    record = {"dtype": NAMES[data_type], "shape": list(dims), "data_offsets": [0, size]}
    text = json.dumps({member or DEFAULT_MEMBER: record}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # aligns the elements
    return _LENGTH.pack(len(text)) + text


def _read(file: IO[bytes], size: int) -> bytes:
    raw = file.read(size)
    if len(raw) != size:
        raise FormatError("the file ends inside its header")
    return raw


def _read_record(record: Any) -> tuple[np.dtype[np.generic], tuple[int, ...], int]:  # noqa: ANN401 - untrusted JSON
    """Returns the type, the dims and the offset of a tensor from its record in the header."""
    try:
        name, dims, (first, last) = str(record["dtype"]), tuple(record["shape"]), record["data_offsets"]
    except (TypeError, KeyError, ValueError):
        message = "the header does not describe the tensor: dtype, shape and two data_offsets are needed"
        raise FormatError(message) from None
    if not all(type(number) is int and number >= 0 for number in (*dims, first, last)):
        raise FormatError("the header has an invalid dimension or offset")
    if name not in _DATA_TYPES:
        raise FormatError(f"the type {name} is not one of {', '.join(_DATA_TYPES)}")
    dtype = DTYPES[_DATA_TYPES[name]]
    if last - first != prod(dims) * dtype.itemsize:
        message = f"the header reserves {last - first} bytes for a tensor that needs {prod(dims) * dtype.itemsize}"
        raise FormatError(message)
    return dtype, dims, first
