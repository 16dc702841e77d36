"""A cache of what was used of late, in two generations.

- A cache holds a number of entries, and no entry above a number of bytes. So its memory is bounded, whatever callers
  send.
- A full cache forgets its older half, never all of it. An entry that is found in the older half moves to the younger.
- Any thread may use a cache without a lock: each step on a dict is one of the interpreter's own. Two threads that fill
  a cache at once may forget entries early, or keep a few more for a while.
- Keys that come from callers of a server are bytes or text, whose hashes are keyed. The hashes of numbers are not: a
  caller could choose keys of one hash, and each look-up would take as long as the cache is large.
"""

from collections.abc import Hashable
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentCache(dict[Key, Value | None]):
    """`cache[key]` is the value that was kept, or None. As a dict it holds the younger half.

    It is a dict because the look-up of a dict calls no function of Python: a small call makes several look-ups.
    """

    __slots__ = ("_half", "_max_entry_bytes", "_older")

    def __init__(self, max_entries: int, max_entry_bytes: int) -> None:
        """Starts empty.

        Args:
            max_entries: how many are held.
            max_entry_bytes: the largest entry; larger ones are not kept.
        """
        super().__init__()
        self._half, self._max_entry_bytes = max_entries // 2, max_entry_bytes
        self._older: dict[Key, Value | None] = {}

    def __missing__(self, key: Key) -> Value | None:
        """Returns what the older half has, and moves it to the younger."""
        value = self._older.get(key)
        if value is not None:
            self._put(key, value)
        return value

    def keep(self, key: Key, value: Value, entry_bytes: int) -> bool:
        """Keeps a value unless it is too large, and returns whether; key and value take `entry_bytes` together."""
        if entry_bytes > self._max_entry_bytes:
            return False
        self._put(key, value)
        return True

    def _put(self, key: Key, value: Value) -> None:
        if len(self) >= self._half:
            self._older = self.copy()
            self.clear()
        self[key] = value
