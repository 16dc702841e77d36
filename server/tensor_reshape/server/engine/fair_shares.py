"""Fair shares of a limited resource, bytes of memory or concurrency slots: by address, then by connection.

- A pool has a limit. An address may always have its fair share, which is the limit divided by one more than the number
  of addresses that hold something. It may have more than that while all addresses together leave the reserve free. An
  address that holds much therefore cannot lock out others, however many connections it opens.
- Within an address, a connection has at most a share, so that one client cannot lock out others of the same address.
  Clients behind one proxy use one connection with different addresses. Each of them has a share.
- A claim that cannot be granted waits. Addresses that hold nothing come first, then all addresses round-robin. Within
  an address its connections take turns. Claims of one connection keep their order.
- A claim above the share of its connection waits only for that connection. It does not delay other claims.
- If nothing of the pool is in use, any claim is granted. Otherwise a claim larger than the pool would wait forever.
- All clients of one unix socket have the same name, so they count as one address and one connection, without a share.

The engine holds its lock when it calls this module, and decides the size of claims. A grant examines at most
`MAX_EXAMINED` waiting addresses.
"""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from tensor_reshape.server.engine.fair_queues import FairQueue
from tensor_reshape.server.engine.sources import Source, is_shared

Owner = TypeVar("Owner")

MAX_EXAMINED = 64
"""Waiting addresses that one grant examines, because there may be thousands."""


@dataclass(slots=True, eq=False)
class Claim(Generic[Owner]):
    """A waiting request for a part of a pool.

    Attributes:
        size: the requested size, in bytes or slots.
        owner: the call that requested it.
        source: the address and connection of the client.
        pool: the pool.
    """

    size: int
    owner: Owner
    source: Source
    pool: "FairPool[Owner]"


class FairPool(Generic[Owner]):
    """A limited resource that addresses and connections share.

    Attributes:
        used: the sum of all holdings.
        waiting: claims that wait until others return something. Read it only.
    """

    def __init__(self, limit: int, reserve: int, connection_share: int | None = None) -> None:
        """Starts with nothing in use.

        Args:
            limit: the most that all addresses may hold together.
            reserve: the part that only addresses below their fair share may use.
            connection_share: the most that one connection may hold. Default: as much as its address.
        """
        self._limit = limit
        self._ceiling = limit - reserve
        self._has_shares = connection_share is not None
        self._share = limit if connection_share is None else connection_share
        self._addresses: dict[str, int] = {}  # holdings of each address that holds something
        self._connections: dict[Source, int] = {}  # holdings of each connection; empty if there is no share
        self.used = 0
        self.waiting: FairQueue[Claim[Owner]] = FairQueue()
        self._newcomers: OrderedDict[str, None] = OrderedDict()  # waiting addresses that hold nothing, oldest first

    @property
    def newcomers(self) -> int:
        """Number of waiting addresses that hold nothing."""
        return len(self._newcomers)

    @property
    def is_crowded(self) -> bool:
        """Whether only the reserve is left."""
        return self.used >= self._ceiling

    @property
    def is_waited_for(self) -> bool:
        """Whether a claim waits that is within the share of its connection."""
        return any(self.waiting.find(address, self._is_within_share) for address in self.waiting.queues)

    def is_greedy(self, address: str) -> bool:
        """Whether an address holds more than its fair share."""
        return self._addresses.get(address, 0) > self._count_fair()

    def fits(self, source: Source, size: int) -> bool:
        """Whether a connection may have `size` more now."""
        together = self.used + size
        if self.used == 0:
            return True
        if self._exceeds_share(source, size):
            return False
        if together <= self._ceiling:
            return True
        has = self._addresses.get(source.address, 0)
        return together <= self._limit and (not has or has + size <= self._count_fair())

    def take(self, source: Source, size: int) -> bool:
        """Gives a connection `size` if that is allowed and no other claim waits for it. Returns whether it did."""
        if self.waiting.queues and self.is_waited_for:
            return False
        # The common case comes first: usually most of the pool is free, and every call gets here twice.
        is_easy = self.used + size <= self._ceiling and self._connections.get(source, 0) + size <= self._share
        if not is_easy and not self.fits(source, size):
            return False
        self.change(source, size)
        return True

    def change(self, source: Source, size: int) -> None:
        """Records that a connection holds `size` more, or less if negative."""
        address = source.address
        self.used += size
        # Written twice instead of a helper, because every call gets here five times. A source without holdings is
        # removed, because a client can have any number of connection names.
        has = self._addresses.get(address, 0) + size
        if has:
            self._addresses[address] = has
        else:
            self._addresses.pop(address, None)
        if not self._has_shares:
            return
        has = self._connections.get(source, 0) + size
        if has:
            self._connections[source] = has
        else:
            self._connections.pop(source, None)
        if self.waiting.queues:
            self._update_newcomer(address)

    def claim(self, source: Source, size: int, owner: Owner) -> Claim[Owner]:
        """Adds a claim of a connection after the claims that it already has."""
        claim = Claim(size, owner, source, self)
        self.waiting.push(source, claim)
        self._update_newcomer(source.address)
        return claim

    def withdraw(self, claim: Claim[Owner]) -> None:
        """Removes a claim. Does nothing if it was granted before."""
        self.waiting.remove(claim.source, claim)
        self._update_newcomer(claim.source.address)

    def grant(self) -> Claim[Owner] | None:
        """Grants the next claim that fits and returns it. None: no waiting claim fits."""
        # While newcomers wait, only they are examined: a smaller claim of another address must not overtake them.
        for address in islice(self._newcomers or self.waiting.queues, MAX_EXAMINED):
            claim = self.waiting.find(address, self._is_within_share)
            if claim is not None and self.fits(claim.source, claim.size):
                self.waiting.pop(claim.source)
                self.change(claim.source, claim.size)
                self._update_newcomer(address)
                return claim
        return None

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
