"""Queues in which callers take turns, however much each of them has there: the addresses first, then the connections.

Nothing here locks: a queue is used by one thread, or under its user's lock.
"""

from collections import OrderedDict, deque
from contextlib import suppress
from typing import Generic, TypeVar

from tensor_reshape.server.engine.sources import Source

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """What waits, by address and connection: first come, first served within a connection, and round-robin over others.

    Attributes:
        queues: what waits, by address and connection, to be read alone; whose turn is next comes first. Empty where
            nothing waits: it takes no function of Python's to ask that.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self.queues: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()  # no part is empty

    def push(self, source: Source, item: Item) -> None:
        """Adds what a connection has; one that had nothing has its turn after the others of its address."""
        connections = self.queues.setdefault(source.address, OrderedDict())
        connections.setdefault(source.connection, deque()).append(item)

    def peek(self, address: str) -> Item:
        """Returns what `pop` would take.

        Raises:
            KeyError: nothing of the address waits.
        """
        return next(iter(self.queues[address].values()))[0]

    def pop(self, address: str | None = None) -> Item:
        """Takes the first of the connection whose turn it is, at the address whose turn it is, or at the one given.

        Raises:
            KeyError: nothing waits, or nothing of the address.
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
        """Takes an item out, wherever it waits; nothing where it does not."""
        connections = self.queues.get(source.address, OrderedDict())
        items = connections.get(source.connection, deque())
        with suppress(ValueError):
            items.remove(item)
        if not items:
            connections.pop(source.connection, None)
        if not connections:
            self.queues.pop(source.address, None)
