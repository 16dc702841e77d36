"""Fair queues: addresses take turns, and within an address its connections, however many items each has queued.

A queue has no lock. Use it from one thread, or under a lock of your own.
"""

from collections import OrderedDict, deque
from contextlib import suppress
from typing import Generic, TypeVar

from tensor_reshape.server.engine.sources import Source

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Items by address and connection: first in, first out within a connection, round-robin between them.

    Attributes:
        queues: the waiting items by address and connection; the next turn comes first. Read it only. It is empty if
            nothing waits, which callers can check without a function call.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self.queues: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()  # no part is empty

    def push(self, source: Source, item: Item) -> None:
        """Adds an item of a connection. A connection without items gets its turn after the others of its address."""
        connections = self.queues.setdefault(source.address, OrderedDict())
        connections.setdefault(source.connection, deque()).append(item)

    def peek(self, address: str) -> Item:
        """Returns the item that `pop` would take.

        Raises:
            KeyError: no item of the address waits.
        """
        return next(iter(self.queues[address].values()))[0]

    def pop(self, address: str | None = None) -> Item:
        """Removes and returns the next item: of the given address, or of the address whose turn it is.

        Raises:
            KeyError: no item waits, or none of the address.
        """
        if address is None:
            address, connections = self.queues.popitem(last=False)
        else:
            connections = self.queues.pop(address)
        connection, items = connections.popitem(last=False)
        item = items.popleft()
        if items:
            connections[connection] = items
        if connections:
            self.queues[address] = connections
        return item

    def remove(self, source: Source, item: Item) -> None:
        """Removes an item wherever it waits. Does nothing if it does not wait."""
        connections = self.queues.get(source.address, OrderedDict())
        items = connections.get(source.connection, deque())
        with suppress(ValueError):
            items.remove(item)
        if not items:
            connections.pop(source.connection, None)
        if not connections:
            self.queues.pop(source.address, None)
