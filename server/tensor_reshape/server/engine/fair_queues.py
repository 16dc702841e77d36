"""Fair queues, in which client addresses take turns. The connections of one address also take turns among themselves.

- The order of turns does not depend on how many items an address or connection has queued. The queues have no lock and
  no clock. Use a queue only from one thread, or protect it with your own lock.
- An `AdmissionQueue` holds calls that may not begin yet. A call waits if many calls have arrived, or if its client has
  too many running calls. Each limit, for example `--max-calls`, has its own `AdmissionQueue`. A client whose limit is
  reached loses its turn, and does not delay other clients.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Generic, TypeVar

from tensor_reshape.server.calls.sources import Source

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """A queue of items, in which each item belongs to a connection, and each connection belongs to an address.

    The items of a connection leave the queue in the order in which they were added. Addresses take turns round-robin,
    and so do the connections of an address.

    Attributes:
        queues: maps each address to its connections, and each connection to its waiting items. The address and the
            connection with the next turn come first. Other code must not change this mapping. The mapping is empty if
            no item waits, so other code can find out without a function call whether items wait.
    """

    def __init__(self) -> None:
        """Makes an empty queue."""
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
        """Returns the next accepted item of an address, or None if `may_take` accepts no item.

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
        """Removes and returns the newest item of an address, from its connection with the most items."""
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


MAX_EXAMINED = 64
"""The maximum number of connections that `AdmissionQueue.pop` examines, because thousands of connections may wait."""


WAIT_SECONDS = 1.0
"""The longest time that a call waits to begin. It is short, because the client may have other servers."""


class AdmissionQueue(Generic[Item]):
    """A fair queue of calls that wait, for a limited time, until their client may begin another call.

    No two waiting calls may be equal.

    Attributes:
        has_room: a function that returns whether another call of a client may begin now.
    """

    def __init__(self, has_room: Callable[[Source], bool], wait_seconds: float = WAIT_SECONDS) -> None:
        """Makes an empty queue, in which a call waits for at most `wait_seconds`."""
        self.has_room = has_room
        self._wait_seconds = wait_seconds
        self._waiting: FairQueue[Item] = FairQueue()
        # the client and the deadline of each waiting call, in the order in which the calls arrived
        self._arrivals: OrderedDict[Item, tuple[Source, float]] = OrderedDict()
        self._counts = Counter[str]()  # the number of waiting calls by address

    def __len__(self) -> int:
        """The number of waiting calls."""
        return len(self._arrivals)

    def push(self, source: Source, item: Item, now: float) -> None:
        """Adds a call that arrived at the time `now`."""
        self._waiting.push(source, item)
        self._arrivals[item] = (source, now + self._wait_seconds)
        self._counts[source.address] += 1

    def pop(self) -> Item | None:
        """Removes and returns the next call that may begin. Returns None if no examined client may begin a call now."""
        first = None
        for _ in range(MAX_EXAMINED if self._arrivals else 0):
            source = self._waiting.find_turn()
            if source == first:
                break
            if self.has_room(source):
                return self._take(self._waiting.pop(source))
            first = first or source
            self._waiting.postpone(source)
        return None

    def pop_expired(self, now: float, most: int) -> Iterator[Item]:
        """Removes and yields up to `most` calls that have waited too long."""
        while most and self._arrivals:
            item, (source, deadline) = next(iter(self._arrivals.items()))
            if deadline > now:
                break
            self._waiting.remove(source, item)
            most -= 1
            yield self._take(item)

    def pop_excess(self) -> Item:
        """Finds the address with the most calls, and the connection of this address with the most calls.

        Removes and returns the newest call of this connection.
        """
        address = max(self._counts, key=self._counts.__getitem__)
        return self._take(self._waiting.pop_newest(address))

    def find_most(self) -> int:
        """Returns the number of waiting calls of the address with the most waiting calls."""
        return max(self._counts.values(), default=0)

    def _take(self, item: Item) -> Item:
        source, _ = self._arrivals.pop(item)
        self._counts[source.address] -= 1
        if not self._counts[source.address]:
            del self._counts[source.address]
        return item
