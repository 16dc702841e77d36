"""How the C library keeps memory, for whoever moves large messages: the server does, other processes may."""

import ctypes

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MMAP_THRESHOLD = 32 * 1024 * 1024  # the largest that glibc takes
_TRIM_THRESHOLD = 2**31 - 1
_TOP_PAD = 64 * 1024 * 1024
_ARENAS = 2  # each keeps memory of its own, and one buffer begins in one thread and ends in another


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
    options = {
        _M_MMAP_THRESHOLD: _MMAP_THRESHOLD,
        _M_TRIM_THRESHOLD: _TRIM_THRESHOLD,
        _M_TOP_PAD: _TOP_PAD,
        _M_ARENA_MAX: _ARENAS,
    }
    return all(mallopt(option, value) == 1 for option, value in options.items())


def release_freed_memory() -> bool:
    """Gives memory that nobody uses back to the system; False where the C library cannot."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError):
        return False
