"""The memory budget of a process: two pools, and the share of one call.

The engine holds its lock when it calls this module. Bytes are counted here, not allocated. The holdings of a call
(`Lifecycle.holdings`) are the most that it can have in memory.
"""

from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.fair_shares import FairPool
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
        self.receiving = FairPool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.working = FairPool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """Bytes that are reserved for all calls now."""
        return self.receiving.used + self.working.used

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes in addition to its messages. If it is the only one, it always may."""
        more = size - life.held
        return more <= 0 or self.working.used == life.held or self.working.fits(life.source, more)

    def update(self, life: Lifecycle) -> None:
        """Updates the pools to the holdings of a call."""
        receiving, working = life.holdings
        counted_receiving, counted_working = life.counted
        # Most calls hold nothing of one pool. Skipping that pool matters, because every call gets here twice.
        if receiving != counted_receiving:
            self.receiving.change(life.source, receiving - counted_receiving)
        if working != counted_working:
            self.working.change(life.source, working - counted_working)
        life.counted = receiving, working
        # As soon as the processing pool holds nothing of the call, its next message uses the receive pool again.
        if life.in_working_pool:
            life.in_working_pool = working > life.held

    def keep_response(self, life: Lifecycle, size: int) -> None:
        """Replaces the memory reserved for a request by memory for its response of `size` bytes."""
        life.reading = 0
        life.reserved = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        self.update(life)

    def return_all(self, life: Lifecycle) -> None:
        """Takes back everything that a call holds, which may be nothing."""
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        self.update(life)


def count_pool_bytes(config: Config) -> int:
    """Returns the size of each of the two pools."""
    # The transport copies a message twice when it delivers it, and it delivers one message at a time.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2
