"""The memory of all calls of a process, in two pools, and what one call may take of it at a time.

Nothing here locks: `admission` does. Bytes are counted, not allocated: what a call holds (`Lifecycle.holdings`) is what
it may have in memory at the most.
"""

from collections.abc import Callable

from tensor_reshape.server.calls.accounts import Pool
from tensor_reshape.server.calls.lifecycle import Lifecycle
from tensor_reshape.server.config import COST_FACTOR, Config

MAX_READS = 16
"""How many messages one connection may receive at once, at most; the others wait for it alone."""

_LEAST_SHARE = 4  # messages: what a strided tensor on a stream may hold


class Budget:
    """The two pools.

    Attributes:
        read_cost: room for the largest message.
        work_cost: what comes of the largest message.
        receiving: room for messages that arrive, and for small answers.
        working: room for what comes of larger ones.
    """

    def __init__(self, config: Config) -> None:
        """Starts with all of it free: half for each pool, and a quarter of that for connections that have nothing."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        self.receiving = Pool(half, half - half // 4, min(MAX_READS * self.read_cost, half))
        self.working = Pool(half, half - half // 4, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self.receiving.used + self.working.used

    @property
    def is_short(self) -> bool:
        """Whether a connection waits that is within its share."""
        return self.receiving.is_short or self.working.is_short

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes besides its messages: one that is alone may, whatever it is."""
        more = size - life.held
        if more <= 0 or self.working.used == life.held:
            return True
        return self.working.fits(self.working.find_account(life.peer), more)

    def settle(self, life: Lifecycle, before: tuple[int, int]) -> list[Callable[[], None]]:
        """Has the pools follow what a call holds now, and returns what there is room for because of that.

        Args:
            life: the call.
            before: its holdings until now.
        """
        self.change(life, before)
        # The next message is received into the receiving pool again, once nothing is left of what was claimed.
        if life.in_working_pool:
            life.in_working_pool = life.holdings[1] > life.held
        return self.grant()

    def keep_answer(self, life: Lifecycle, size: int) -> list[Callable[[], None]]:
        """Has a call hold the one answer to what has arrived, of `size` bytes, instead of that; returns as `settle`."""
        kept = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        if life.reserved or life.in_working_pool:
            before, life.reading, life.reserved = life.holdings, 0, kept
            return self.settle(life, before)
        # Every small call comes by here: all that changes of its holdings is in the receiving pool.
        self.receiving.change(life.peer, kept - life.reading)
        life.reading, life.reserved = 0, kept
        return self.grant()

    def give_back(self, life: Lifecycle) -> list[Callable[[], None]]:
        """Takes back all that a call holds, also where that is nothing; returns as `settle`."""
        receiving, working = life.holdings
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        life.in_working_pool = False
        if receiving:
            self.receiving.change(life.peer, -receiving)
        if working:
            self.working.change(life.peer, -working)
        return self.grant()

    def change(self, life: Lifecycle, before: tuple[int, int], given: int = 0) -> None:
        """Has the pools follow what a call holds now, of which the working pool has given `given` already."""
        receiving, working = life.holdings
        # Most calls have nothing of one of them: it is not asked, since every call comes by here twice.
        if receiving != before[0]:
            self.receiving.change(life.peer, receiving - before[0])
        if working != before[1] + given:
            self.working.change(life.peer, working - before[1] - given)

    def grant(self) -> list[Callable[[], None]]:
        """Grants what there is room for, and returns what is to be done without the lock."""
        # Asked before: mostly nobody waits, and every call comes by here twice. First the working pool: what it grants
        # gives room back in the receiving pool.
        granted = self.working.grant() if self.working.is_short else []
        return granted + self.receiving.grant() if self.receiving.is_short else granted


def count_pool_bytes(config: Config) -> int:
    """Returns the size of each of the two pools."""
    # The transport hands a message over by copying it twice, one message at a time.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2
