"""Keeps the memory of large messages and outputs, so that later calls can use it again.

The operating system clears each page of fresh memory, which takes several times as long as copying a page. Invariants:

- Memory is used again only when no array refers to it. Every numpy view of the memory refers to the array that
  `take_memory` returned, and an array of another framework refers to one of these views.
- The system can take unused memory at any time (MADV_FREE), so no timer is needed to return the memory.
- Finalizers may run on any thread and during any statement, so they take no lock. The operations of the deque are
  atomic. Python ignores an exception that a signal handler raises in a finalizer.
"""

import mmap
import sys
from collections import deque
from contextlib import suppress
from operator import index
from weakref import finalize

import numpy as np
import numpy.typing as npt

DEFAULT_KEPT_BYTES = 512 * 1024 * 1024

_LEAST_BYTES = 256 * 1024  # the C library itself keeps smaller blocks
_LEAST_STEP_BYTES = 64 * 1024
_STEPS_LOG2 = 3  # sizes are rounded up by at most an eighth, so that an output of a similar size fits

# At first, glibc allocates each block of `_MAPPED_BYTES` or more as fresh memory from the system. After the program has
# freed one of these blocks, glibc keeps freed blocks up to the size of that block. In addition, glibc keeps free memory
# at the end of its heap, up to twice the size of that block. `_FREED_BYTES` is the largest block that has this effect,
# less the space for glibc's own data. Without this effect, large messages would need fresh memory again and again, for
# example 1,700 pages for a stream of 16 MiB.
_MAPPED_BYTES = 128 * 1024
_FREED_BYTES = 32 * 1024 * 1024 - 64 * 1024

_unused = deque[mmap.mmap]()
_has_freed = False  # whether a block of `_FREED_BYTES` was freed
_kept_bytes = DEFAULT_KEPT_BYTES


def keep_output_memory(max_bytes: int) -> None:
    """Sets how much memory of dropped outputs this process keeps for later outputs.

    A large call is faster if it needs no fresh memory. The memory of the output of a stream is used again when your
    program has dropped the output and all its views. The system may take the kept memory when it needs memory, but
    tools such as `top` count it as used. Memory is kept only on Linux. Before the first call with a tensor of 128 KiB
    or more, the SDK also frees an unused block of 32 MiB, so that glibc keeps up to 64 MiB of freed memory, as in any
    program that frees a block of this size.

    Args:
        max_bytes: the maximum number of bytes to keep, 512 MiB by default. 0 keeps nothing. To keep nothing from the
            beginning, call this function before the first reshape.

    Raises:
        TypeError: `max_bytes` is not an integer.
        ValueError: `max_bytes` is negative.

    >>> keep_output_memory(0)
    """
    global _kept_bytes  # noqa: PLW0603 - the setting of the process
    max_bytes = index(max_bytes)
    if max_bytes < 0:
        raise ValueError(f"max_bytes is {max_bytes}; it must be at least 0")
    _kept_bytes = max_bytes
    _trim()


def adapt_allocator(size: int) -> None:
    """Makes glibc keep the memory of large messages, before this process sends its first large tensor."""
    global _has_freed  # noqa: PLW0603 - once per process
    if size >= _MAPPED_BYTES and _kept_bytes and not _has_freed:
        _has_freed = True
        with suppress(MemoryError):
            # This block is never written, so it needs no physical memory, and is freed at once.
            np.empty(_FREED_BYTES, np.uint8)


def take_memory(size: int) -> npt.NDArray[np.uint8]:
    """Returns memory of at least `size` bytes with any content.

    Raises:
        MemoryError: there is not enough memory.
        ValueError: numpy cannot represent such an array.
    """
    if size < _LEAST_BYTES or not _kept_bytes:
        return np.empty(size, np.uint8)
    try:
        block = _take_block(size)
    except (OSError, OverflowError, ValueError):
        _unused.clear()  # the unused blocks may count towards a memory limit of the process
        return np.empty(size, np.uint8)
    memory = np.frombuffer(block, np.uint8)
    finalize(memory, _keep, block).atexit = False
    return memory


def _take_block(size: int) -> mmap.mmap:
    step = max(_LEAST_STEP_BYTES, 1 << max(size.bit_length() - 1 - _STEPS_LOG2, 0))
    size = -(-size // step) * step
    for block in _unused.copy():
        if len(block) == size:
            with suppress(ValueError):  # another thread has taken the block
                _unused.remove(block)
                return block
    if sys.platform == "linux":
        block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with suppress(OSError):  # the kernel may not support huge pages, which only make the memory faster
            block.madvise(mmap.MADV_HUGEPAGE)
        return block
    raise OSError


def _keep(block: mmap.mmap) -> None:
    if sys.platform == "linux" and len(block) <= _kept_bytes:
        with suppress(OSError):  # if the kernel does not support MADV_FREE, the block is not kept
            block.madvise(mmap.MADV_FREE)
            _unused.append(block)
            _trim()


def _trim() -> None:
    """Drops the least recently used blocks, until the remaining blocks are within the limit."""
    while sum(map(len, _unused.copy())) > _kept_bytes:
        with suppress(IndexError):  # another thread has taken the last block
            _unused.popleft()
