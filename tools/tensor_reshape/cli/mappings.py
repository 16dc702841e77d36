"""Maps files into memory. Only the part of a mapped file that is in use stays in memory.

- Parts that have been processed are returned to the system while the transfer continues. With this method, a file of 10
  GiB uses some tens of MiB of memory.
- If another process truncates a mapped file, the signal SIGBUS ends this process. The system has no other way to report
  that a mapped file was truncated. An output file has a temporary name until it is complete, so an incomplete file
  never replaces an old file.
"""

import mmap
from typing import IO

WINDOW_BYTES = 32 * 1024 * 1024
"""The size of the part that stays in memory."""

# For a shared memory mapping, MADV_DONTNEED removes only the pages of this process. Data that was written stays in the
# system's cache or in the file, so it can be read again. Systems without MADV_DONTNEED release mapped memory by their
# own rules.
_GIVE_BACK = getattr(mmap, "MADV_DONTNEED", None)


class Mapping:
    """A mapped file.

    Attributes:
        buffer: the bytes of the mapped file.
    """

    def __init__(self, file: IO[bytes], *, writable: bool = False) -> None:
        """Maps a whole file.

        Raises:
            ValueError: the file is empty.
            OSError: the file cannot be mapped.
        """
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        self.buffer = memoryview(self._map)
        self._given = 0

    def give_back(self, end: int) -> None:
        """Returns the memory of the bytes before `end` to the system, if this frees at least WINDOW_BYTES."""
        end -= end % mmap.PAGESIZE
        if end < self._given:  # a smaller `end` means that the transfer has started again
            self._given = 0
        if _GIVE_BACK is not None and end - self._given >= WINDOW_BYTES:
            self._map.madvise(_GIVE_BACK, self._given, end - self._given)
            self._given = end
