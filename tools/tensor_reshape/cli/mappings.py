"""Files that are mapped into memory, of which only what is worked on stays there.

Laws:

- What has been worked on is given back to the system as the work goes on: a file of 10 GiB takes some tens of MiB.
- A file that is cut short by somebody else while it is mapped ends the process by SIGBUS: the system has no other way
  to say it. What is written goes to a file of another name until it is whole, so nothing half done takes its place.
"""

import mmap
from typing import IO

WINDOW_BYTES = 32 * 1024 * 1024
"""How much is worked on before it is given back."""

# Of a mapping that is shared with its file this takes nothing but the process's own view: what was written stays in the
# system's cache, and is read again from there or from the file. Where a system does not have it, it decides by itself.
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
        """Gives back what lies before `end` and a window or more behind what was given back before."""
        end -= end % mmap.PAGESIZE
        if end < self._given:  # a transfer that began anew
            self._given = 0
        if _GIVE_BACK is not None and end - self._given >= WINDOW_BYTES:
            self._map.madvise(_GIVE_BACK, self._given, end - self._given)
            self._given = end
