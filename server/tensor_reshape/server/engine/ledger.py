"""Room that callers share: bytes of memory, or places for calls. The one rule of fairness, by address, then connection.

- A pool has a limit. An address may always have its fair part: the limit, divided by one more than the addresses that
  have something. More than that it may have while all addresses together leave the reserve free. So whoever has much
  cannot keep out those who have little, however many connections it opens.
- Within an address, a connection has at most a share, so that one client leaves room for others behind its address.
  Callers behind one proxy come by one connection under addresses of their own: each has a share.
- Whoever finds no room waits. Room is given to addresses that have nothing first, then round-robin to all, and within
  an address round-robin to its connections, in the order of their claims.
- A claim above the share of its connection is held back: it waits only for that connection, and no other claim waits
  behind it.
- Where nobody has anything, a claim is granted whatever it is: else one larger than the pool would wait for ever.
- All clients of one unix socket have one name, so they are one address and one connection, without a share.

Nothing here locks. A grant looks at no more than `MAX_LOOKS` of those that wait, and again after each claim that it
holds back. The engine decides what is claimed.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from tensor_reshape.server.engine.fair_queues import FairQueue
from tensor_reshape.server.engine.sources import Source, is_shared

Owner = TypeVar("Owner")

MAX_LOOKS = 64
"""How many addresses that wait are looked at for one that can be served: there may be thousands of them."""


@dataclass(slots=True, eq=False)
class Claim(Generic[Owner]):
    """A wish for room.

    Attributes:
        size: how much.
        owner: who wishes for it.
        source: whose it is.
        pool: of which.
    """

    size: int
    owner: Owner
    source: Source
    pool: "Pool[Owner]"

    def withdraw(self) -> None:
        """Takes it back."""
        self.pool.withdraw(self)


class Pool(Generic[Owner]):
    """So much room for all.

    Attributes:
        used: what they have, all of them together.
        waiting: claims that wait for others to give something back; to be read alone.
    """

    def __init__(self, limit: int, reserve: int, connection_share: int | None = None) -> None:
        """Starts with all of it free.

        Args:
            limit: what all may have together.
            reserve: the part that is left for addresses which have less than their fair part.
            connection_share: what one connection may have; None: as much as its address.
        """
        self._limit = limit
        self._ceiling = limit - reserve
        self._has_shares = connection_share is not None
        self._share = limit if connection_share is None else connection_share
        self._addresses: dict[str, int] = {}  # what each has, of those that have something
        self._connections: dict[Source, int] = {}  # likewise; nothing where they have no share
        self.used = 0
        self.waiting: FairQueue[Claim[Owner]] = FairQueue()
        # By address and connection: claims behind the one that waits, or above the share. None is in the way of others.
        self._held_back: dict[Source, deque[Claim[Owner]]] = {}
        self._newcomers: OrderedDict[str, None] = OrderedDict()  # addresses that wait and have nothing, as they came

    @property
    def newcomers(self) -> int:
        """How many addresses wait that have nothing."""
        return len(self._newcomers)

    @property
    def is_crowded(self) -> bool:
        """Whether most of it is taken."""
        return self.used >= self._ceiling

    def is_greedy(self, address: str) -> bool:
        """Whether an address has more than its fair part."""
        return self._addresses.get(address, 0) > self._count_fair()

    def fits(self, source: Source, size: int) -> bool:
        """Whether a connection may have so much more, now."""
        together = self.used + size
        if self.used == 0:
            return True
        if self._is_above_share(source, size):
            return False
        if together <= self._ceiling:
            return True
        has = self._addresses.get(source.address, 0)
        return together <= self._limit and (not has or has + size <= self._count_fair())

    def take(self, source: Source, size: int) -> bool:
        """Gives a connection room where no claim that waits comes first, and returns whether it did."""
        if self.waiting.queues:
            return False
        # Most calls find most of it free. Every one comes by here twice, so that is asked first.
        is_easy = self.used + size <= self._ceiling and self._connections.get(source, 0) + size <= self._share
        if not is_easy and not self.fits(source, size):
            return False
        self.change(source, size)
        return True

    def change(self, source: Source, size: int) -> None:
        """Notes that a connection has `size` more, or less."""
        address = source.address
        self.used += size
        # Written out for both tables: every call comes by here five times. Whoever has nothing is not kept, since a
        # stranger can come under any number of names.
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
        if self._held_back and size < 0:
            self._let_wait(source)
        if self.waiting.queues:
            self._note_newcomer(address)

    def claim(self, source: Source, size: int, owner: Owner) -> Claim[Owner]:
        """Has a connection wait for room, behind what it waits for already."""
        claim = Claim(size, owner, source, self)
        self._held_back.setdefault(source, deque()).append(claim)
        self._let_wait(source)
        return claim

    def withdraw(self, claim: Claim[Owner]) -> None:
        """Takes a claim back, also one that has been granted."""
        held = self._held_back.get(claim.source)
        if held and claim in held:
            held.remove(claim)
            if not held:
                del self._held_back[claim.source]
        else:
            self.waiting.remove(claim.source, claim)
        self._let_wait(claim.source)
        self._note_newcomer(claim.source.address)

    def grant(self) -> Claim[Owner] | None:
        """Gives room to the next claim that there is room for, and returns it."""
        # Who has nothing is not overtaken by a smaller claim of one who has something.
        while claim := self._find_next(islice(self._newcomers or self.waiting.queues, MAX_LOOKS)):
            if self._is_above_share(claim.source, claim.size):
                self._hold_back(claim)
                continue
            self.waiting.pop(claim.source.address)
            self.change(claim.source, claim.size)
            self._let_wait(claim.source)
            self._note_newcomer(claim.source.address)
            return claim
        return None

    def _find_next(self, addresses: Iterable[str]) -> Claim[Owner] | None:
        """Returns the first claim that there is room for, or whose connection has grown above its share."""
        for address in addresses:
            claim = self.waiting.peek(address)
            if self.fits(claim.source, claim.size) or self._is_above_share(claim.source, claim.size):
                return claim
        return None

    def _hold_back(self, claim: Claim[Owner]) -> None:
        """Has a claim wait for its own share again: while it waits for others, those of its address wait behind it."""
        self.waiting.remove(claim.source, claim)
        self._held_back.setdefault(claim.source, deque()).appendleft(claim)

    def _is_above_share(self, source: Source, size: int) -> bool:
        has = self._connections.get(source, 0)
        return bool(has) and has + size > self._share and not is_shared(source.connection)

    def _let_wait(self, source: Source) -> None:
        """Has the next claim of a connection wait for others, unless one does already, or it is above the share."""
        held = self._held_back.get(source)
        waits = source.connection in self.waiting.queues.get(source.address, ())
        if held and not waits and not self._is_above_share(source, held[0].size):
            self.waiting.push(source, held.popleft())
            self._note_newcomer(source.address)
            if not held:
                del self._held_back[source]

    def _note_newcomer(self, address: str) -> None:
        if address in self.waiting.queues and address not in self._addresses:
            self._newcomers.setdefault(address)
        else:
            self._newcomers.pop(address, None)

    def _count_fair(self) -> int:
        return self._limit // (len(self._addresses) + 1)
