"""Files that are mapped into memory. Only the part in use stays in memory.

- Finished parts are returned to the system during the work. So a file of 10 GiB uses some tens of MiB.
- If another process truncates a mapped file, SIGBUS ends this process. The system cannot report it otherwise. Output
  goes to a file with another name until it is complete, so no incomplete file replaces the old one.
"""

import mmap
from typing import IO

WINDOW_BYTES = 32 * 1024 * 1024
"""The size of the part that stays in memory."""

# For a shared mapping, this only removes the process's own view. Written data stays in the system's cache and is read
# again from there or from the file. Systems without it decide themselves.
_GIVE_BACK = getattr(mmap, "MADV_DONTNEED", None)


class Mapping:
    """A mapped file.

    Attributes:
        buffer: its bytes.
    """

    def __init__(self, file: IO[bytes], *, writable: bool = False) -> None:
        """Maps a whole file.

        Raises:
            ValueError: it is empty.
            OSError: it cannot be mapped.
        """
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        self.buffer = memoryview(self._map)
        self._given = 0

    def give_back(self, end: int) -> None:
        """Returns the memory before `end` to the system, if it is at least WINDOW_BYTES more than before."""
        end -= end % mmap.PAGESIZE
        if end < self._given:  # a transfer that was repeated
            self._given = 0
        if _GIVE_BACK is not None and end - self._given >= WINDOW_BYTES:
            self._map.madvise(_GIVE_BACK, self._given, end - self._given)
            self._given = end
