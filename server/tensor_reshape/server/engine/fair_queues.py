"""Fair queues, in which client addresses take turns, and the connections of each address take turns.

The order of turns does not depend on how many items an address or connection has queued. A `FairQueue` has no lock, so
use it from one thread or under a lock of your own.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from tensor_reshape.server.calls.sources import Source

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """A queue of items by address and connection.

    The items of a connection leave the queue in the order in which they were added. Addresses take turns round-robin,
    and so do the connections of an address.

    Attributes:
        queues: the waiting items by address and connection. The address and the connection with the next turn come
            first. Other code must not change this mapping. The mapping is empty if no item waits, which can be checked
            without a function call.
    """

    def __init__(self) -> None:
        """Starts empty."""
        # Each client address in `queues` has at least one connection, and each of these connections has at least one
        # queued item.
        self.queues: OrderedDict[str, OrderedDict[str, deque[Item]]] = OrderedDict()

    def push(self, source: Source, item: Item) -> None:
        """Adds an item of a connection.

        A connection that had no items gets its turn after the other connections of its address.
        """
        connections = self.queues.setdefault(source.address, OrderedDict())
        connections.setdefault(source.connection, deque()).append(item)

    def find(self, address: str, may_take: Callable[[Item], bool]) -> Item | None:
        """Returns the next item of an address that `may_take` accepts, or None.

        Only the first item of each connection is examined, in the order of the connections' turns.
        """
        return next((items[0] for items in self.queues[address].values() if may_take(items[0])), None)

    def find_turn(self) -> Source:
        """Returns the connection with the next turn."""
        address = next(iter(self.queues), "")
        return Source(address, next(iter(self.queues[address])))

    def postpone(self, source: Source) -> None:
        """Gives a connection and its address the last turn."""
        self.queues[source.address].move_to_end(source.connection)
        self.queues.move_to_end(source.address)

    def pop_newest(self, address: str) -> Item:
        """Removes and returns the newest item of the connection with the most items of an address."""
        connections = self.queues[address]
        connection = max(connections, key=lambda connection: len(connections[connection]))
        item = connections[connection].pop()
        self._drop_empty(Source(address, connection))
        return item

    def pop(self, source: Source | None = None) -> Item:
        """Removes and returns the next item of a connection. By default, this is the connection whose turn it is.

        Raises:
            KeyError: the connection has no waiting item, or the queue is empty.
        """
        source = source or self.find_turn()
        item = self.queues[source.address][source.connection].popleft()
        self.postpone(source)
        self._drop_empty(source)
        return item

    def remove(self, source: Source, item: Item) -> None:
        """Removes an item from the queue of its connection. Does nothing if the item is not queued."""
        with suppress(KeyError, ValueError):
            self.queues[source.address][source.connection].remove(item)
            self._drop_empty(source)

    def _drop_empty(self, source: Source) -> None:
        connections = self.queues[source.address]
        if not connections[source.connection]:
            del connections[source.connection]
        if not connections:
            del self.queues[source.address]
