"""Fair shares of a limited resource, which is memory or the concurrency slots.

The resource is divided among the addresses of clients first, and then among the connections of each address.

- A pool has a limited size. If N addresses use the pool now, the fair share of each address is the size of the pool
  divided by N + 1. A client address may use its fair share as soon as this part of the pool is free. An address may use
  more than its fair share if the reserve, which is a fixed part of the pool, stays free. An address that uses a large
  part of the pool therefore cannot lock out other addresses, even if it opens many connections. A connection that uses
  nothing of the pool yet may also use half of the reserve, even if its address uses a large part of the pool.
- A connection may use at most the connection share of the pool, so that one client cannot lock out other clients of the
  same address. A proxy may use one connection for clients with different addresses. On the connection of a proxy, each
  client address has its own connection share.
- A claim is a request for a part of the pool. If a claim cannot be granted at once, it waits. Claims of addresses that
  do not use the pool yet are granted first. If all waiting addresses already use the pool, these addresses take turns.
  Within an address, connections that use nothing of the pool come first, and the other connections take turns. The
  claims of one connection are granted in the order in which they were made.
- A claim that exceeds the connection share waits until the same connection has freed memory or slots. While it waits,
  it does not delay the claims of other connections.
- If the whole pool is free, any claim is granted, even a claim larger than the pool. Without this rule, a claim that is
  larger than the pool would wait forever.
- gRPC gives the same name to all clients of a unix socket. All clients of a unix socket therefore count as one address
  and one connection. The connection share does not apply to the connection of a unix socket.

Hold a lock while you change a pool. A value that is read without the lock may be out of date. The engine determines the
size of each claim. To find the next claim to grant, `FairPool.grant` examines at most `MAX_EXAMINED` waiting addresses.
"""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from tensor_reshape.server.calls.sources import Source, is_shared
from tensor_reshape.server.engine.fair_queues import FairQueue

Owner = TypeVar("Owner")

MAX_EXAMINED = 64
"""The maximum number of waiting addresses that `FairPool.grant` examines, because thousands of addresses may wait."""


@dataclass(slots=True, eq=False)
class Claim(Generic[Owner]):
    """A waiting request for a part of a pool.

    Attributes:
        size: the requested number of bytes or slots.
        owner: the call that made the request.
        source: the address and connection of the client.
        pool: the pool from which the call requests a part.
    """

    size: int
    owner: Owner
    source: Source
    pool: "FairPool[Owner]"


class FairPool(Generic[Owner]):
    """A limited resource that client addresses and their connections share.

    Attributes:
        used: the number of bytes or slots in use.
        waiting: the claims that wait until other calls free a part of the pool. Other code must not change this queue.
    """

    def __init__(self, limit: int, reserve: int, connection_share: int) -> None:
        """Makes a pool of which nothing is in use.

        Args:
            limit: the number of bytes or slots in the pool.
            reserve: the part of the pool that only addresses below their fair share may use.
            connection_share: the number of bytes or slots that one connection may use.
        """
        self._limit = limit
        self._ceiling, self._middle = limit - reserve, limit - reserve // 2
        self._share = connection_share
        self._addresses: dict[str, int] = {}  # the number of bytes or slots that each client address uses
        self._connections: dict[Source, int] = {}  # the number of bytes or slots that each connection uses
        self.used = 0
        self.waiting: FairQueue[Claim[Owner]] = FairQueue()
        # These client addresses wait for a part of the pool and have no part of it yet. The address that came first is
        # listed first.
        self._newcomers: OrderedDict[str, None] = OrderedDict()

    @property
    def newcomers(self) -> int:
        """The number of waiting addresses that hold nothing of the pool."""
        return len(self._newcomers)

    @property
    def is_crowded(self) -> bool:
        """Whether only the reserved part of the pool (or less) is free."""
        return self.used >= self._ceiling

    @property
    def is_waited_for(self) -> bool:
        """Whether any waiting claim is within its connection share."""
        return any(self.waiting.find(address, self._is_within_share) for address in self.waiting.queues)

    def count_starving_connections(self) -> dict[str, int]:
        """Returns for each waiting address how many of its waiting connections hold nothing of the pool."""
        return {
            address: sum(Source(address, connection) not in self._connections for connection in connections)
            for address, connections in self.waiting.queues.items()
        }

    def is_greedy(self, address: str) -> bool:
        """Whether an address holds more than its fair share."""
        return self._addresses.get(address, 0) > self._count_fair()

    def fits(self, source: Source, size: int = 1) -> bool:
        """Whether a connection may now have `size` more bytes or slots."""
        together = self.used + size
        if self.used == 0:
            return True
        if self._exceeds_share(source, size):
            return False
        if together <= self._ceiling:
            return True
        has = self._addresses.get(source.address, 0)
        if not has or has + size <= self._count_fair():
            return together <= self._limit
        return together <= self._middle and self._is_starving(source)

    def take(self, source: Source, size: int) -> bool:
        """Gives a connection `size` bytes or slots if they fit, and if `is_waited_for` is False.

        Returns whether the connection has got the bytes or slots.
        """
        if self.waiting.queues and self.is_waited_for:
            return False
        # Usually most of the pool is free, and then this simple check is sufficient. It saves time, because this method
        # runs twice for every call.
        is_easy = self.used + size <= self._ceiling and self._connections.get(source, 0) + size <= self._share
        if not is_easy and not self.fits(source, size):
            return False
        self.change(source, size)
        return True

    def change(self, source: Source, size: int) -> None:
        """Records that a connection holds `size` more bytes or slots, or fewer if `size` is negative."""
        address = source.address
        self.used += size
        # The same code is repeated for the address and for the connection, because a common function would cost time.
        # This method runs five times for every call. An address or connection without a part of the pool is removed
        # from its dict, because a client can open any number of connections over time.
        has = self._addresses.get(address, 0) + size
        if has:
            self._addresses[address] = has
        else:
            self._addresses.pop(address, None)
        has = self._connections.get(source, 0) + size
        if has:
            self._connections[source] = has
        else:
            self._connections.pop(source, None)
        if self.waiting.queues:
            self._update_newcomer(address)

    def claim(self, source: Source, size: int, owner: Owner) -> Claim[Owner]:
        """Adds a claim of a connection after the claims that the connection already has."""
        claim = Claim(size, owner, source, self)
        self.waiting.push(source, claim)
        self._update_newcomer(source.address)
        return claim

    def withdraw(self, claim: Claim[Owner]) -> None:
        """Removes a claim. Does nothing if the claim was already granted."""
        self.waiting.remove(claim.source, claim)
        self._update_newcomer(claim.source.address)

    def postpone(self, source: Source) -> None:
        """Gives a connection with waiting claims the last turn of its address."""
        connections = self.waiting.queues.get(source.address)
        if connections is not None and source.connection in connections:
            connections.move_to_end(source.connection)

    def grant(self) -> Claim[Owner] | None:
        """Grants the next claim that fits and returns this claim, or None if no waiting claim fits."""
        # If waiting client addresses have no part of the pool yet, only the claims of these addresses are examined.
        # Without this rule, smaller claims of other addresses could overtake these claims again and again.
        for address in islice(self._newcomers or self.waiting.queues, MAX_EXAMINED):
            starving = self.waiting.find(address, lambda claim: self._is_starving(claim.source))
            claim = starving or self.waiting.find(address, self._is_within_share)
            if claim is not None and self.fits(claim.source, claim.size):
                self.waiting.pop(claim.source)
                self.change(claim.source, claim.size)
                self._update_newcomer(address)
                return claim
        return None

    def _is_starving(self, source: Source) -> bool:
        return source not in self._connections

    def _is_within_share(self, claim: Claim[Owner]) -> bool:
        return not self._exceeds_share(claim.source, claim.size)

    def _exceeds_share(self, source: Source, size: int) -> bool:
        has = self._connections.get(source, 0)
        return bool(has) and has + size > self._share and not is_shared(source.connection)

    def _update_newcomer(self, address: str) -> None:
        if address in self.waiting.queues and address not in self._addresses:
            self._newcomers.setdefault(address)
        else:
            self._newcomers.pop(address, None)

    def _count_fair(self) -> int:
        return self._limit // (len(self._addresses) + 1)
