"""Shared memory regions, which are parts of files in one directory. Clients register each region under a name.

- The server does not map files into memory. If another process truncated a mapped file, SIGBUS would kill the server.
  If a file that is not mapped is truncated, `preadv` and `pwritev` only transfer fewer bytes.
- The server opens the file of a region for each use and then closes the file. If the owner of a file unlinks the file,
  its memory is therefore freed.
- The server only uses regular files in the directory itself, not in its subdirectories. The files of regions must
  belong to the server's user and have a link count of 1. Symbolic links, pipes and devices are rejected. The key of a
  region (its file name) has no slash after its first character, so `O_NOFOLLOW` checks the whole path.
- The server opens the shared memory directory once, when it starts. If this directory or its parent is replaced later,
  the server does not use the new directory.
- The number of regions and the length of their names are limited. Reading a region allocates as many bytes as the
  request asks for. The caller of `SharedMemory.read` must have reserved this memory.
- Any thread may call all methods of `SharedMemory`. The lock of `SharedMemory` is not held while a file is accessed.
"""

import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tensor_reshape.rules.errors import InvalidRequestError, LimitError, NotFoundError, Reason

MAX_REGIONS = 1024
"""The maximum number of registered regions.

A running call uses at most two of them, one to read from and one to write to.
"""

MAX_NAME_BYTES = 255
"""The maximum length of the name of a region and of its file name. The system allows no longer file names."""

# The files of regions are opened for reading and writing, because a registration does not say whether a region is for
# inputs or outputs. Without O_NONBLOCK, a pipe without a writer would block the thread. Without O_NOCTTY, a terminal
# could become the controlling terminal of the server.
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Region(NamedTuple):
    """A part of a file, in bytes.

    Attributes:
        key: the name of the file, as the client sent it. A leading slash is ignored, because clients that use
            `shm_open` must write one.
        offset: the start of the region in the file.
        byte_size: the size of the region.
    """

    key: str
    offset: int
    byte_size: int


class SharedMemory:
    """The registered shared memory regions of one server."""

    def __init__(self, directory: Path | None) -> None:
        """Starts without regions.

        Args:
            directory: the directory with the files, or None if shared memory is disabled.

        Raises:
            OSError: the directory cannot be opened.
        """
        self._directory = None if directory is None else os.open(directory, _DIRECTORY_FLAGS)
        if self._directory is not None:
            weakref.finalize(self, os.close, self._directory)
        self._regions: dict[str, Region] = {}
        # this lock prevents simultaneous registrations from exceeding the limit of regions
        self._lock = threading.Lock()

    @property
    def is_enabled(self) -> bool:
        """Whether clients may register regions."""
        return self._directory is not None

    def register(self, name: str, region: Region) -> None:
        """Registers a part of a file as a region. The file must exist and contain the whole region.

        Raises:
            InvalidRequestError: the reason is SHARED_MEMORY_DISABLED, REGION_INVALID, REGION_FILE_INVALID or
                REGION_OUT_OF_RANGE.
            LimitError: the reason is REGION_LIMIT_EXCEEDED.
        """
        self._check_enabled()
        _check_name(name, "name")
        _check_key(region.key)
        if not region.byte_size:
            message = "byte_size is 0; a region must have at least one byte"
            raise InvalidRequestError.of(Reason.REGION_INVALID, message, "byte_size")
        with self._open(name, region, "key"):
            pass
        with self._lock:
            if name in self._regions:
                message = f"the region '{name}' is already registered; unregister it first"
                raise InvalidRequestError.of(Reason.REGION_INVALID, message, "name", name=name)
            if len(self._regions) >= MAX_REGIONS:
                message = f"{MAX_REGIONS} regions are registered, which is the limit; unregister a region first"
                raise LimitError.of(Reason.REGION_LIMIT_EXCEEDED, message, "name", limit=MAX_REGIONS)
            self._regions[name] = region

    def unregister(self, name: str) -> None:
        """Removes a region, or all regions if the name is empty. An unknown name has no effect.

        Raises:
            InvalidRequestError: the reason is SHARED_MEMORY_DISABLED.
        """
        self._check_enabled()
        with self._lock:
            if name:
                self._regions.pop(name, None)
            else:
                self._regions.clear()

    def list_regions(self, name: str) -> Mapping[str, Region]:
        """Returns the region with this name, or all regions if the name is empty.

        Raises:
            InvalidRequestError: the reason is SHARED_MEMORY_DISABLED.
            NotFoundError: the reason is REGION_UNKNOWN.
        """
        self._check_enabled()
        if name:
            return {name: self._find(name, "name")}
        with self._lock:
            return dict(self._regions)

    def read(self, name: str, offset: int, byte_size: int, field: str) -> memoryview:
        """Returns a copy of a part of a region.

        Args:
            name: the name of the region.
            offset: the start of the part in the region.
            byte_size: the size of the part in bytes.
            field: the name of the request field for error messages.

        Raises:
            InvalidRequestError: the reason is SHARED_MEMORY_DISABLED, REGION_OUT_OF_RANGE or REGION_FILE_INVALID.
            NotFoundError: the reason is REGION_UNKNOWN.
        """
        region = self._locate(name, offset, byte_size, field)
        with self._open(name, region, field) as file:
            buffer = memoryview(bytearray(byte_size))
            _transfer(os.preadv, file, buffer, region.offset)
        return buffer.toreadonly()

    def write(self, name: str, offset: int, data: memoryview, field: str) -> None:
        """Writes `data` to a region.

        If another process truncates the file while it is written, the file grows again up to the end of the data.

        Args:
            name: the name of the region.
            offset: the position of the data in the region.
            data: the bytes to write.
            field: the name of the request field for error messages.

        Raises:
            InvalidRequestError: the reason is SHARED_MEMORY_DISABLED, REGION_OUT_OF_RANGE or REGION_FILE_INVALID.
            NotFoundError: the reason is REGION_UNKNOWN.
        """
        region = self._locate(name, offset, data.nbytes, field)
        with self._open(name, region, field) as file:
            _transfer(os.pwritev, file, data, region.offset)

    def _check_enabled(self) -> None:
        if not self.is_enabled:
            message = "shared memory is disabled on this server; send the tensor in the message"
            raise InvalidRequestError.of(Reason.SHARED_MEMORY_DISABLED, message)

    def _find(self, name: str, field: str) -> Region:
        with self._lock:
            region = self._regions.get(name)
        if region is None:
            message = f"Unable to find shared memory region: '{name}'"
            raise NotFoundError.of(Reason.REGION_UNKNOWN, message, field, value=name)
        return region

    def _locate(self, name: str, offset: int, byte_size: int, field: str) -> Region:
        """Returns the part of a file that contains a given part of a region."""
        self._check_enabled()
        region = self._find(name, field)
        if min(offset, byte_size) < 0 or offset + byte_size > region.byte_size:
            what = f"the region '{name}', of {region.byte_size} bytes,"
            raise _reject_range(what, offset, byte_size, field)
        return Region(region.key, region.offset + offset, byte_size)

    @contextmanager
    def _open(self, name: str, region: Region, field: str) -> Iterator[int]:
        """Opens the file of a region for the duration of the `with` block. The file must contain the whole region."""
        try:
            # `os.open` gets the file name as bytes. A `str` that the locale cannot encode would raise a
            # UnicodeEncodeError.
            file = os.open(region.key.removeprefix("/").encode(), _FLAGS, dir_fd=self._directory)
            try:
                _check_file(os.fstat(file), name, region, field)
                yield file
            finally:
                os.close(file)
        except OSError as error:
            # The response does not contain the text of the OSError, because this text contains the path of the file.
            why = "it is a symbolic link" if error.errno == errno.ELOOP else os.strerror(error.errno or 0)
            raise _reject_file(name, why, field) from error


def _transfer(move: Callable[[int, list[memoryview], int], int], file: int, data: memoryview, offset: int) -> None:
    """Reads from the file until `data` is full, or writes all of `data` to the file.

    Raises:
        OSError: the file is too short, or cannot be written.
    """
    moved = 0
    while moved < data.nbytes:
        count = move(file, [data[moved:]], offset + moved)
        if not count:  # another process has truncated the file while it was open
            raise OSError(errno.ENODATA, "")
        moved += count


def _check_name(name: str, field: str) -> None:
    """Raises InvalidRequestError with REGION_INVALID if a name is empty or too long."""
    if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
        message = f"{field} has {len(name.encode())} bytes; it must have 1 to {MAX_NAME_BYTES}"
        raise InvalidRequestError.of(Reason.REGION_INVALID, message, field)


def _check_key(key: str) -> None:
    """Raises InvalidRequestError with REGION_INVALID if a key is not the name of a file in the directory itself."""
    name = key.removeprefix("/")
    _check_name(name, "key")
    if name in {".", ".."} or {"/", "\0"} & set(name):
        message = f"key is {key!r}; it must be a file name, optionally with one leading slash"
        raise InvalidRequestError.of(Reason.REGION_INVALID, message, "key", key=key)


def _check_file(status: os.stat_result, name: str, region: Region, field: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _reject_file(name, "it is not a regular file", field)
    if status.st_uid != os.geteuid():
        raise _reject_file(name, "it does not belong to the server's user", field)
    if status.st_nlink != 1:
        raise _reject_file(name, "its link count is not 1", field)
    if region.offset + region.byte_size > status.st_size:
        what = f"the file of the region '{name}', of {status.st_size} bytes,"
        raise _reject_range(what, region.offset, region.byte_size, field)


def _reject_file(name: str, why: str, field: str) -> InvalidRequestError:
    message = f"the file of the region '{name}' cannot be used: {why}"
    return InvalidRequestError.of(Reason.REGION_FILE_INVALID, message, field, name=name)


def _reject_range(what: str, offset: int, byte_size: int, field: str) -> InvalidRequestError:
    message = f"{what} does not hold {byte_size} bytes at offset {offset}"
    return InvalidRequestError.of(Reason.REGION_OUT_OF_RANGE, message, field, offset=offset, byte_size=byte_size)
