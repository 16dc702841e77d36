"""Changes settings of the C library's memory allocator in processes that send or receive large messages."""

import ctypes
import threading
from contextlib import suppress

# These option numbers are from glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MMAP_THRESHOLD = 32 * 1024 * 1024  # glibc accepts no larger threshold
_TRIM_THRESHOLD = 2**31 - 1
_TOP_PAD = 64 * 1024 * 1024
# The number of arenas is small, because each arena keeps its own free memory, and buffers move between threads.
_ARENAS = 2
_KEEPING = {
    _M_MMAP_THRESHOLD: _MMAP_THRESHOLD,
    _M_TRIM_THRESHOLD: _TRIM_THRESHOLD,
    _M_TOP_PAD: _TOP_PAD,
    _M_ARENA_MAX: _ARENAS,
}
_RELEASING = {_M_TRIM_THRESHOLD: 0, _M_TOP_PAD: 0}
# If a freed block is larger than 64 KiB, glibc also trims the end of its arena.
_BLOCK_BYTES = 128 * 1024


def keep_freed_memory() -> bool:
    """Makes glibc keep the memory of large messages for later messages, in the whole process.

    By default, glibc often returns large freed buffers to the system. A new buffer takes longer to map and clear than
    to use. This function raises the thresholds of glibc (`mallopt`) and lets threads share arenas. The function
    `release_freed_memory` returns the memory to the system.

    Returns:
        True if the settings were changed. With a C library other than glibc, the result is False.

    >>> was_changed = keep_freed_memory()
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) == 1 for option, value in _KEEPING.items())


def release_freed_memory() -> bool:
    """Releases the memory that glibc has kept because of `keep_freed_memory`.

    The function returns False if the C library cannot release memory.

    `malloc_trim` returns the free memory at the end of the main arena. In every other arena, `malloc_trim` keeps up to
    64 MiB of free memory at the end. glibc returns this memory if a thread of the arena frees a large block while the
    thresholds are low. This function therefore lowers the thresholds and frees a block in each arena. glibc assigns new
    threads to the arenas in turn. The function starts more threads than there are arenas, because other threads may
    start at the same time.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt, trim, malloc, free = library.mallopt, library.malloc_trim, library.malloc, library.free
    except (AttributeError, OSError):
        return False
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def release_arena() -> None:
        free(malloc(_BLOCK_BYTES))
        # If a block of this thread lies after the free memory, the free memory is not at the end of the arena, and
        # `free` did not return it to the system. `malloc_trim` can return such memory only now. After the thread has
        # ended, the memory is at the end of the arena, and `malloc_trim` keeps it.
        trim(0)

    for option, value in _RELEASING.items():
        mallopt(option, value)
    release_arena()
    with suppress(RuntimeError):  # the system may be unable to start a thread
        for _ in range(2 * _ARENAS):
            thread = threading.Thread(target=release_arena, name="allocator", daemon=True)
            thread.start()
            thread.join()
    for option in _RELEASING:
        mallopt(option, _KEEPING[option])
    return True
