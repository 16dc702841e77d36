"""Settings of the C library's memory allocator, for processes that send or receive large messages."""

import ctypes
import threading
from contextlib import suppress

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8
_MMAP_THRESHOLD = 32 * 1024 * 1024  # the maximum of glibc
_TRIM_THRESHOLD = 2**31 - 1
_TOP_PAD = 64 * 1024 * 1024
_ARENAS = 2  # each arena keeps its own free memory, and buffers move between threads
_KEEPING = {
    _M_MMAP_THRESHOLD: _MMAP_THRESHOLD,
    _M_TRIM_THRESHOLD: _TRIM_THRESHOLD,
    _M_TOP_PAD: _TOP_PAD,
    _M_ARENA_MAX: _ARENAS,
}
_RELEASING = {_M_TRIM_THRESHOLD: 0, _M_TOP_PAD: 0}
_BLOCK_BYTES = 128 * 1024  # when a block above 64 KiB is freed, glibc trims the end of its arena


def keep_freed_memory() -> bool:
    """Makes glibc keep the memory of large messages for later messages, in the whole process.

    By default, glibc returns every buffer above 128 KiB to the system. Mapping and clearing it again costs more than
    using it. This function raises the thresholds (`mallopt`) and lets threads share arenas. `release_freed_memory`
    returns the memory to the system.

    Returns:
        whether the settings were changed; False with other C libraries.

    >>> was_changed = keep_freed_memory()
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(option, value) == 1 for option, value in _KEEPING.items())


def release_freed_memory() -> bool:
    """Returns unused memory to the system, after `keep_freed_memory`; False if the C library does not support it.

    `malloc_trim` keeps the free end of each arena except the main one, up to 64 MiB. glibc returns this memory when a
    thread of the arena frees a large block while the thresholds are low. New threads get the arenas in turn. This
    function starts more threads than there are arenas, because other threads may start at the same time.
    """
    try:
        library = ctypes.CDLL(None)
        mallopt, trim, malloc, free = library.mallopt, library.malloc_trim, library.malloc, library.free
    except (AttributeError, OSError):
        return False
    malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def release_arena() -> None:
        free(malloc(_BLOCK_BYTES))
        # If a block of this thread lies behind the free memory, that memory is not the end of the arena before the
        # thread has ended. So `free` did not return it, and a later `malloc_trim` would keep it.
        trim(0)

    for option, value in _RELEASING.items():
        mallopt(option, value)
    release_arena()
    with suppress(RuntimeError):  # the system cannot start a thread
        for _ in range(2 * _ARENAS):
            thread = threading.Thread(target=release_arena, name="allocator", daemon=True)
            thread.start()
            thread.join()
    for option in _RELEASING:
        mallopt(option, _KEEPING[option])
    return True
