"""Maps arrays of files, and releases their memory. Only the part of a mapped file that is in use stays in memory.

- Parts that have been processed are returned to the system while the transfer continues. With this method, a file of 10
  GiB uses some tens of MiB of memory.
- If another process truncates a mapped file, the signal SIGBUS ends this process. The system has no other way to report
  that a mapped file was truncated. An output file has a temporary name until it is complete, so an incomplete file
  never replaces an old file.
"""

import mmap
import os
from collections.abc import Sequence
from math import prod
from typing import IO, Any, Literal, cast

import numpy as np

WINDOW_BYTES = 32 * 1024 * 1024
"""The size of the part that stays in memory."""

# For a shared memory mapping, MADV_DONTNEED removes only the pages of this process. Data that was written stays in the
# system's cache or in the file, so it can be read again. Systems without MADV_DONTNEED release mapped memory by their
# own rules.
_GIVE_BACK = getattr(mmap, "MADV_DONTNEED", None)


def map_array(
    file: IO[bytes], dtype: np.dtype[Any], offset: int, dims: Sequence[int], order: Literal["C", "F"] = "C"
) -> np.memmap[Any, Any]:
    """Returns an array of a file, mapped read-only.

    Raises:
        ValueError: the file ends inside the array, or numpy does not support the dims.
    """
    if offset + prod(dims) * dtype.itemsize > os.fstat(file.fileno()).st_size:
        raise ValueError
    return np.memmap(file, dtype, "r", offset, tuple(dims), order)


class Mapping:
    """The memory of a mapped array."""

    def __init__(self, array: np.memmap[Any, Any]) -> None:
        """Takes an array that numpy has mapped."""
        self._map = cast("mmap.mmap", array.base)
        # A mapping starts at a multiple of this size.
        self._start = array.offset % mmap.ALLOCATIONGRANULARITY
        self._given = 0

    def give_back(self, arrived: int) -> None:
        """Returns the memory of the first `arrived` bytes to the system, if this frees at least WINDOW_BYTES."""
        end = self._start + arrived
        end -= end % mmap.PAGESIZE
        if end < self._given:  # a smaller `end` means that the transfer has started again
            self._given = 0
        if _GIVE_BACK is not None and end - self._given >= WINDOW_BYTES:
            self._map.madvise(_GIVE_BACK, self._given, end - self._given)
            self._given = end
