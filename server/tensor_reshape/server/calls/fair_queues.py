"""Queues in which the connections take turns, however much each of them has there.

Nothing here locks: a queue is used by one thread.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """What waits, by the connection that it is of: first come, first served within one, and round-robin over all.

    Attributes:
        waiting: as much, to be read alone. Whether there is any is asked several times for each call that a server
            begins: of this, it takes no function of Python's to say so.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self.waiting: OrderedDict[Hashable, deque[Item]] = OrderedDict()  # whose turn is next, first; none is empty

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.waiting)

    def push(self, peer: Hashable, item: Item) -> None:
        """Adds what a connection has; one that had nothing has its turn after all others."""
        self.waiting.setdefault(peer, deque()).append(item)

    def pop(self) -> Item:
        """Takes the first of the connection whose turn it is.

        Raises:
            KeyError: nothing waits.
        """
        peer, items = self.waiting.popitem(last=False)
        item = items.popleft()
        if items:
            self.waiting[peer] = items
        return item
