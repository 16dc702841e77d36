"""A bounded number of slots for calls, shared fairly by holders: these are addresses or connections.

- When there is one call too many, one of the holder that has the most must go: a caller that takes many slots loses its
  own, and a holder with one call loses it only where none has two.
- If several holders have the most, the one that has lost most slots loses one: the calls of honest holders are over
  soon, so they rarely lose any.
- All operations take nearly constant time, whatever is held: they run on the thread that receives every call.
- All clients of one unix socket have one name, so they are one holder.
- The call that must go is returned, and is given up without the lock: see `bounded_calls.make_room`.
"""

import threading
from collections import OrderedDict
from itertools import islice
from typing import Generic, TypeVar

from tensor_reshape.server.engine.sources import is_shared

Call = TypeVar("Call")
Item = TypeVar("Item")


_MAX_LOSERS = 1024  # holders of which losses are remembered: a stranger can open any number of them
_MAX_COMPARED = 64  # holders of a level: to compare all of thousands would take the receiving thread too long


class CallSlots(Generic[Call]):
    """The slots of one kind of calls; safe to use from any thread."""

    def __init__(self, total: int, *, per_holder: int | None = None, spares_first: bool = False) -> None:
        """Starts with all slots free.

        Args:
            total: how many there are.
            per_holder: how many of them one holder may take; not of a unix socket.
            spares_first: whether the first calls stay. Otherwise they go, which is right if honest calls soon give
                their slots back.
        """
        self._total = total
        self._per_holder = per_holder
        self._spares_first = spares_first
        self._lock = threading.Lock()  # guards all that follows
        self._holders: dict[Call, str] = {}  # of the calls that have a slot
        self._calls: dict[str, dict[Call, None]] = {}  # by holder, the first to come first
        self._levels: dict[
            int, dict[str, None]
        ] = {}  # the holders that hold so many slots, so that the most crowded are found at once; no level is empty
        self._losses: OrderedDict[str, int] = OrderedDict()  # how many slots each holder has lost, the last losers last

    def take(self, call: Call, holder: str) -> Call | None:
        """Takes a slot, and returns the call that must go for it, if any: it has lost its slot, or got none."""
        with self._lock:
            self._holders[call] = holder
            self._count(holder, 1).setdefault(call)
            crowded = holder if self._exceeds_share(holder) else None
            if crowded is None and len(self._holders) > self._total:
                crowded = self._choose_holder(self._levels[max(self._levels)])
            if crowded is None:
                return None
            leaver = self._choose(self._calls[crowded])
            self._free(leaver)
            self._note_loss(crowded)
            return leaver

    def free(self, call: Call) -> None:
        """Gives the slot back, also when the call has none any more."""
        with self._lock:
            self._free(call)

    def list_calls(self) -> list[Call]:
        """Returns the calls that have a slot now."""
        with self._lock:
            return list(self._holders)

    def _exceeds_share(self, holder: str) -> bool:
        if self._per_holder is None or is_shared(holder):
            return False
        return len(self._calls[holder]) > self._per_holder

    def _choose_holder(self, holders: dict[str, None]) -> str:
        if self._spares_first:
            return self._choose(holders)
        return max(islice(holders, _MAX_COMPARED), key=lambda holder: self._losses.get(holder, 0))

    def _note_loss(self, holder: str) -> None:
        self._losses[holder] = self._losses.pop(holder, 0) + 1
        if len(self._losses) > _MAX_LOSERS:
            self._losses.popitem(last=False)

    def _choose(self, items: dict[Item, None]) -> Item:
        return next(reversed(items) if self._spares_first else iter(items))

    def _free(self, call: Call) -> None:
        holder = self._holders.pop(call, None)
        if holder is not None:
            self._count(holder, -1).pop(call)
            if not self._calls[holder]:
                del self._calls[holder]

    def _count(self, holder: str, change: int) -> dict[Call, None]:
        """Moves a holder to another level, and returns its calls, of which there are to be one more or less."""
        calls = self._calls.setdefault(holder, {})
        level = len(calls)
        if level:
            self._levels[level].pop(holder)
            if not self._levels[level]:
                del self._levels[level]
        if level + change:
            self._levels.setdefault(level + change, {})[holder] = None
        return calls
