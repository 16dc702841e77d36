"""How the C library keeps memory, for whoever moves large messages: the server does, other processes may."""

import ctypes
import threading
from contextlib import suppress

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MMAP_THRESHOLD = 32 * 1024 * 1024  # the largest that glibc takes
_TRIM_THRESHOLD = 2**31 - 1
_TOP_PAD = 64 * 1024 * 1024
_ARENAS = 2  # each keeps memory of its own, and one buffer begins in one thread and ends in another
_KEEPING = {
    _M_MMAP_THRESHOLD: _MMAP_THRESHOLD,
    _M_TRIM_THRESHOLD: _TRIM_THRESHOLD,
    _M_TOP_PAD: _TOP_PAD,
    _M_ARENA_MAX: _ARENAS,
}
_RELEASING = {_M_TRIM_THRESHOLD: 0, _M_TOP_PAD: 0}
_BLOCK_BYTES = 128 * 1024  # a block above 64 KiB has glibc look at the end of its arena when it is freed


def keep_freed_memory() -> bool:
    """Has the C library keep the memory of large messages for the next ones, in this whole process.

    glibc gives every buffer above 128 KiB back to the system, and to map and clear it anew costs more than to use it.
    So this raises its thresholds (`mallopt`), and has threads share their arenas; `release_freed_memory` gives back
    what has been kept.

    Returns:
        whether it does; with another C library nothing is changed.

    >>> was_changed = keep_freed_memory()
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) == 1 for option, value in _KEEPING.items())


def release_freed_memory() -> bool:
    """Gives memory that nobody uses back to the system, in a process that keeps it; False where the C library cannot.

    `malloc_trim` leaves the free end of each arena but the main one: up to 64 MiB. glibc returns that when a thread of
    the arena frees a large block while the thresholds are low. New threads get the arenas by turns: there are more than
    arenas, because other threads may start meanwhile.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt, trim, malloc, free = library.mallopt, library.malloc_trim, library.malloc, library.free
    except (AttributeError, OSError):
        return False
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    for option, value in _RELEASING.items():
        mallopt(option, value)
    with suppress(RuntimeError):  # the system has no thread to give
        for _ in range(2 * _ARENAS):
            thread = threading.Thread(target=lambda: free(malloc(_BLOCK_BYTES)), name="allocator", daemon=True)
            thread.start()
            thread.join()
    trimmed = bool(trim(0))
    for option in _RELEASING:
        mallopt(option, _KEEPING[option])
    return trimmed
