"""Queues in which the connections take turns, however much each of them has there.

Nothing here locks: a queue is used by one thread.
"""

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """What waits, by the connection that it is of: first come, first served within one, and round-robin over all."""

    def __init__(self) -> None:
        """Starts empty."""
        self._waiting: OrderedDict[str, deque[Item]] = OrderedDict()  # whose turn is next, first; none is empty

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def push(self, peer: str, item: Item) -> None:
        """Adds what a connection has; one that had nothing has its turn after all others."""
        self._waiting.setdefault(peer, deque()).append(item)

    def pop(self) -> Item:
        """Takes the first of the connection whose turn it is.

        Raises:
            KeyError: nothing waits.
        """
        peer, items = self._waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self._waiting[peer] = items
        return item
