"""Cache of recently used values, in two generations.

- The size of a generation and of an entry is limited in bytes, so the memory is bounded for any input.
- A full cache drops its older generation. An entry that is used in the older one moves to the younger one.
- A set of entries that fits into one generation is kept completely, in whatever order the entries are used.
- Threads may share a cache without a lock, because each operation on a dict is atomic. If two threads fill a cache at
  the same time, it may drop entries early or hold a few more for a short time.
- Keys from clients must be bytes or text, because Python randomizes their hashes. Hashes of numbers are predictable, so
  a client could choose numbers with equal hashes and make each look-up slow.
"""

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


_ENTRY_BYTES = 400
"""The memory of an entry in addition to the bytes in its key and value: two dict entries and some small objects."""


class RecentCache(dict[Key, Value | None]):
    """`cache[key]` returns the value or None. The dict itself is the younger generation.

    The class is a dict, because a look-up in a dict calls no Python function, and a small call makes several look-ups.
    """

    __slots__ = ("_bytes", "_max_bytes", "_max_entry_bytes", "_older", "_older_sizes", "_sizes")

    def __init__(self, max_bytes: int, max_entry_bytes: int) -> None:
        """Creates an empty cache.

        Args:
            max_bytes: the largest memory of a generation in bytes. The cache may use twice as much.
            max_entry_bytes: larger entries are not kept.
        """
        super().__init__()
        self._max_bytes, self._max_entry_bytes = max_bytes, max_entry_bytes
        self._bytes = 0  # of the younger generation
        self._sizes: dict[Key, int] = {}
        self._older: dict[Key, Value | None] = {}
        self._older_sizes: dict[Key, int] = {}

    def __missing__(self, key: Key) -> Value | None:
        """Returns a value of the older generation and moves it to the younger one."""
        value = self._older.get(key)
        if value is not None:
            # Another thread may have just dropped this generation. The entry then counts as one of the largest.
            self._put(key, value, self._older_sizes.get(key, self._max_entry_bytes))
        return value

    def keep(self, key: Key, value: Value, entry_bytes: int) -> bool:
        """Stores a value and returns True, unless key and value (`entry_bytes` together) are too large."""
        if entry_bytes > self._max_entry_bytes:
            return False
        self._put(key, value, entry_bytes)
        return True

    def _put(self, key: Key, value: Value, entry_bytes: int) -> None:
        if self._bytes + entry_bytes + _ENTRY_BYTES > self._max_bytes:
            self._older, self._older_sizes = self.copy(), self._sizes
            self.clear()
            self._bytes, self._sizes = 0, {}
        self._bytes += entry_bytes + _ENTRY_BYTES
        self._sizes[key] = entry_bytes
        self[key] = value
