"""The memory budget of a process: two pools, and the share of one call.

The engine holds its lock when it calls this module. Bytes are counted here, not allocated. The holdings of a call
(`Lifecycle.holdings`) are the most that it can have in memory.
"""

from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.ledger import Pool
from tensor_reshape.server.engine.lifecycle import Lifecycle

MAX_READS = 16
"""Messages that a connection may receive at the same time, for each address that uses it. Further messages wait."""

_RESERVED_PART = 4  # a quarter of each pool is reserved for addresses that hold little
_LEAST_SHARE = 4  # in messages: a strided tensor on a stream can hold so much


class Budget:
    """The two pools.

    Attributes:
        read_cost: bytes of the largest message.
        work_cost: bytes needed to process the largest message.
        receiving: the receive pool, for arriving messages and small responses.
        working: the processing pool, for larger responses.
    """

    def __init__(self, config: Config) -> None:
        """Starts with both pools free. Each has half of the budget."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        reserve = half // _RESERVED_PART
        self.receiving = Pool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.working = Pool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """Bytes that are reserved for all calls now."""
        return self.receiving.used + self.working.used

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes in addition to its messages. If it is the only one, it always may."""
        more = size - life.held
        return more <= 0 or self.working.used == life.held or self.working.fits(life.source, more)

    def settle(self, life: Lifecycle, before: tuple[int, int]) -> None:
        """Updates the pools after the holdings of a call have changed.

        Args:
            life: the call.
            before: its previous holdings.
        """
        self.change(life, before)
        # As soon as the processing pool holds nothing of the call, its next message uses the receive pool again.
        if life.in_working_pool:
            life.in_working_pool = life.holdings[1] > life.held

    def keep_answer(self, life: Lifecycle, size: int) -> None:
        """Replaces the memory reserved for a request by memory for its response of `size` bytes."""
        kept = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        if life.reserved or life.in_working_pool:
            before, life.reading, life.reserved = life.holdings, 0, kept
            self.settle(life, before)
            return
        # The path of every small call: only its share of the receive pool changes.
        self.receiving.change(life.source, kept - life.reading)
        life.reading, life.reserved = 0, kept

    def give_back(self, life: Lifecycle) -> None:
        """Takes back everything that a call holds, which may be nothing."""
        if life.in_working_pool or life.unsent or life.held:
            receiving, working = life.holdings
        else:  # the path of every small call
            receiving, working = life.reading + life.reserved, 0
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        life.in_working_pool = False
        if receiving:
            self.receiving.change(life.source, -receiving)
        if working:
            self.working.change(life.source, -working)

    def change(self, life: Lifecycle, before: tuple[int, int], given: int = 0) -> None:
        """Updates the pools to the holdings of a call; the processing pool has already given `given` bytes of them."""
        receiving, working = life.holdings
        # Most calls hold nothing of one pool. Skipping that pool matters, because every call gets here twice.
        if receiving != before[0]:
            self.receiving.change(life.source, receiving - before[0])
        if working != before[1] + given:
            self.working.change(life.source, working - before[1] - given)


def count_pool_bytes(config: Config) -> int:
    """Returns the size of each of the two pools."""
    # The transport copies a message twice when it delivers it, and it delivers one message at a time.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2
