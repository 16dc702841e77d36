"""A cache of recently used values. The entries of the cache are divided into two generations.

- Each generation and each entry has a size limit in bytes, so the memory of the cache is bounded for any input.
- When the younger generation is full, the cache drops the older generation, and the younger generation becomes the
  older one. When an entry of the older generation is used, the entry moves to the younger generation.
- If a set of entries fits into one generation, the cache keeps all of them, in whatever order they are used.
- Threads may share a cache without a lock, because each operation on a dict is atomic. If two threads fill a cache at
  the same time, the cache may drop entries early, or may exceed its limit by a few entries for a short time.
- Keys that clients can choose must be bytes or text, because Python randomizes the hashes of bytes and text. The hashes
  of numbers are predictable, so a client could choose numbers with equal hashes, which would make each lookup slow.
"""

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


_ENTRY_BYTES = 400
"""The memory of an entry in addition to the bytes of its key and its value. It consists of two dict entries and some
small objects.
"""


class RecentCache(dict[Key, Value | None]):
    """A cache in which `cache[key]` returns the value or None. The dict itself is the younger generation of the cache.

    The class is a dict to save time, because a lookup in a dict calls no Python function, and even a small gRPC call
    makes several lookups.
    """

    __slots__ = ("_bytes", "_max_bytes", "_max_entry_bytes", "_older", "_older_sizes", "_sizes")

    def __init__(self, max_bytes: int, max_entry_bytes: int) -> None:
        """Creates an empty cache.

        Args:
            max_bytes: the largest memory of one generation in bytes. Both generations together may use twice as much
                memory.
            max_entry_bytes: the size of the largest entry that is stored.
        """
        super().__init__()
        self._max_bytes, self._max_entry_bytes = max_bytes, max_entry_bytes
        self._bytes = 0  # the total size of the entries in the younger generation
        self._sizes: dict[Key, int] = {}
        self._older: dict[Key, Value | None] = {}
        self._older_sizes: dict[Key, int] = {}

    def __missing__(self, key: Key) -> Value | None:
        """Returns a value of the older generation and moves the value to the younger generation."""
        value = self._older.get(key)
        if value is not None:
            # Another thread may have dropped the older generation after the lookup. The size of the cache entry is then
            # unknown, and the largest possible size is assumed.
            self._put(key, value, self._older_sizes.get(key, self._max_entry_bytes))
        return value

    def keep(self, key: Key, value: Value, entry_bytes: int) -> bool:
        """Stores a value unless it is too large. The method returns whether the value was stored.

        `entry_bytes` is the size of the key and the value together.
        """
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
