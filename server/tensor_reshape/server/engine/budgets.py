"""The memory of all calls of a process, in two pools, and what one call may take of it at a time.

Nothing here locks: the engine does. Bytes are counted, not allocated: what a call holds (`Lifecycle.holdings`) is what
it may have in memory at the most.
"""

from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.ledger import Pool
from tensor_reshape.server.engine.lifecycle import Lifecycle

MAX_READS = 16
"""How many messages a connection may receive at once, for each address that calls by it; its others wait for these."""

_RESERVED_PART = 4  # of each pool a part in so many is left for addresses that have little
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
        """Starts with all of it free: half for each pool."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        reserve = half // _RESERVED_PART
        self.receiving = Pool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.working = Pool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """What is set aside for all calls now."""
        return self.receiving.used + self.working.used

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes besides its messages: one that is alone may, whatever it is."""
        more = size - life.held
        return more <= 0 or self.working.used == life.held or self.working.fits(life.source, more)

    def settle(self, life: Lifecycle, before: tuple[int, int]) -> None:
        """Has the pools follow what a call holds now.

        Args:
            life: the call.
            before: its holdings until now.
        """
        self.change(life, before)
        # The next message is received into the receiving pool again, once nothing is left of what was claimed.
        if life.in_working_pool:
            life.in_working_pool = life.holdings[1] > life.held

    def keep_answer(self, life: Lifecycle, size: int) -> None:
        """Has a call hold the one answer to what has arrived, of `size` bytes, instead of that."""
        kept = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        if life.reserved or life.in_working_pool:
            before, life.reading, life.reserved = life.holdings, 0, kept
            self.settle(life, before)
            return
        # Every small call comes by here: all that changes of its holdings is in the receiving pool.
        self.receiving.change(life.source, kept - life.reading)
        life.reading, life.reserved = 0, kept

    def give_back(self, life: Lifecycle) -> None:
        """Takes back all that a call holds, also where that is nothing."""
        if life.in_working_pool or life.unsent or life.held:
            receiving, working = life.holdings
        else:  # every small call comes by here
            receiving, working = life.reading + life.reserved, 0
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        life.in_working_pool = False
        if receiving:
            self.receiving.change(life.source, -receiving)
        if working:
            self.working.change(life.source, -working)

    def change(self, life: Lifecycle, before: tuple[int, int], given: int = 0) -> None:
        """Has the pools follow what a call holds now, of which the working pool has given `given` already."""
        receiving, working = life.holdings
        # Most calls have nothing of one of them: it is not asked, since every call comes by here twice.
        if receiving != before[0]:
            self.receiving.change(life.source, receiving - before[0])
        if working != before[1] + given:
            self.working.change(life.source, working - before[1] - given)


def count_pool_bytes(config: Config) -> int:
    """Returns the size of each of the two pools."""
    # The transport hands a message over by copying it twice, one message at a time.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2
