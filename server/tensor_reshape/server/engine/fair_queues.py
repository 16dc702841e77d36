"""Fair queues: addresses take turns, and within an address its connections, however many items each has queued.

A queue has no lock. Use it from one thread, or under a lock of your own.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
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

    def find(self, address: str, may_take: Callable[[Item], bool]) -> Item | None:
        """Returns the next item of an address, of the first connection whose next item `may_take` accepts, if any."""
        return next((items[0] for items in self.queues[address].values() if may_take(items[0])), None)

    def pop(self, source: Source | None = None) -> Item:
        """Removes and returns the next item: of the given connection, or of the connection whose turn it is.

        Raises:
            KeyError: no item waits, or none of the connection.
        """
        address = source.address if source is not None else next(iter(self.queues), "")
        connections = self.queues[address]
        connection = source.connection if source is not None else next(iter(connections))
        item = connections[connection].popleft()
        connections.move_to_end(connection)
        self.queues.move_to_end(address)
        self._drop_empty(Source(address, connection))
        return item

    def remove(self, source: Source, item: Item) -> None:
        """Removes an item wherever it waits. Does nothing if it does not wait."""
        with suppress(KeyError, ValueError):
            self.queues[source.address][source.connection].remove(item)
            self._drop_empty(source)

    def _drop_empty(self, source: Source) -> None:
        connections = self.queues[source.address]
        if not connections[source.connection]:
            del connections[source.connection]
        if not connections:
            del self.queues[source.address]
