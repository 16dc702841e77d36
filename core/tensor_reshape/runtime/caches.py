"""Cache of recently used values, in two generations.

- The number of entries and the size of an entry are limited, so the memory is bounded for any input.
- A full cache drops its older half. An entry that is used in the older half moves to the younger one.
- Threads may share a cache without a lock, because each operation on a dict is atomic. If two threads fill a cache at
  the same time, it may drop entries early or hold a few more for a short time.
- Keys from clients must be bytes or text, because Python randomizes their hashes. Hashes of numbers are predictable, so
  a client could choose numbers with equal hashes and make each look-up slow.
"""

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentCache(dict[Key, Value | None]):
    """`cache[key]` returns the value or None. The dict itself is the younger half.

    The class is a dict, because a look-up in a dict calls no Python function, and a small call makes several look-ups.
    """

    __slots__ = ("_half", "_max_entry_bytes", "_older")

    def __init__(self, max_entries: int, max_entry_bytes: int) -> None:
        """Creates an empty cache.

        Args:
            max_entries: the largest number of entries.
            max_entry_bytes: larger entries are not kept.
        """
        super().__init__()
        self._half, self._max_entry_bytes = max_entries // 2, max_entry_bytes
        self._older: dict[Key, Value | None] = {}

    def __missing__(self, key: Key) -> Value | None:
        """Returns a value of the older half and moves it to the younger half."""
        value = self._older.get(key)
        if value is not None:
            self._put(key, value)
        return value

    def keep(self, key: Key, value: Value, entry_bytes: int) -> bool:
        """Stores a value and returns True, unless key and value (`entry_bytes` together) are too large."""
        if entry_bytes > self._max_entry_bytes:
            return False
        self._put(key, value)
        return True

    def _put(self, key: Key, value: Value) -> None:
        if len(self) >= self._half:
            self._older = self.copy()
            self.clear()
        self[key] = value
