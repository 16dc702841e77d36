"""The memory budget of a process, which is divided into a receive pool and a processing pool.

The engine holds its lock when it calls this module. The memory budget only counts the bytes that calls may use, and
does not allocate memory. The holdings of a call (`Lifecycle.holdings`) are the largest number of bytes that the call
can have in memory.
"""

from tensor_reshape.server.config import COST_FACTOR, Config
from tensor_reshape.server.engine.fair_shares import FairPool
from tensor_reshape.server.engine.lifecycle import Lifecycle

MAX_READS = 16
"""The number of messages that a connection may receive at the same time. Further messages wait for memory.

A connection of a proxy carries calls of several client addresses. The limit applies to each client address separately.
"""

_RESERVED_PART = 4  # a quarter of each memory pool is reserved for client addresses that hold little memory
# The smallest connection share in the processing pool, as a multiple of the largest message size. A tensor with strides
# on a stream can need memory for four copies of its elements.
_LEAST_SHARE = 4


class Budget:
    """The two memory pools of a process.

    Attributes:
        read_cost: the size of the largest message in bytes.
        work_cost: the number of bytes needed to process the largest message.
        receiving: the receive pool, which has the memory for arriving messages and small responses.
        working: the processing pool, which has the memory for larger responses.
    """

    def __init__(self, config: Config) -> None:
        """Starts with two empty pools. Each pool has half of the budget."""
        self.read_cost = config.max_message_bytes
        self.work_cost = COST_FACTOR * config.max_message_bytes
        half = count_pool_bytes(config)
        reserve = half // _RESERVED_PART
        self.receiving = FairPool[Lifecycle](half, reserve, min(MAX_READS * self.read_cost, half))
        self.working = FairPool[Lifecycle](half, reserve, max(half // 2, _LEAST_SHARE * self.read_cost))

    @property
    def used_bytes(self) -> int:
        """The number of bytes that are currently reserved for all calls together."""
        return self.receiving.used + self.working.used

    def may_hold(self, life: Lifecycle, size: int) -> bool:
        """Whether a stream may hold `size` bytes in addition to its messages.

        If no other call uses the processing pool, the stream may hold any number of bytes.
        """
        more = size - life.held
        return more <= 0 or self.working.used == life.held or self.working.fits(life.source, more)

    def update(self, life: Lifecycle) -> None:
        """Updates the counts of the pools after the holdings of a call have changed."""
        receiving, working = life.holdings
        counted_receiving, counted_working = life.counted
        # Most calls use only one of the two memory pools. This method runs twice for every call, so it skips the unused
        # pool to save time.
        if receiving != counted_receiving:
            self.receiving.change(life.source, receiving - counted_receiving)
        if working != counted_working:
            self.working.change(life.source, working - counted_working)
        life.counted = receiving, working
        # When a call no longer uses the processing pool, the next message of the call uses the receive pool again.
        if life.in_working_pool:
            life.in_working_pool = working > life.held

    def keep_response(self, life: Lifecycle, size: int) -> None:
        """Frees the memory that is reserved for a request, and reserves memory for its response of `size` bytes."""
        life.reading = 0
        life.reserved = COST_FACTOR * max(life.arrived_bytes, size) if size else 0
        self.update(life)

    def return_all(self, life: Lifecycle) -> None:
        """Frees all memory that a call holds. Does nothing if the call holds no memory."""
        life.reading = life.reserved = life.unsent = life.unsent_bytes = life.held = 0
        self.update(life)


def count_pool_bytes(config: Config) -> int:
    """Returns the size in bytes of each of the two memory pools."""
    # The rest of the memory budget is for the transport. The transport delivers one message at a time, and makes two
    # copies of each message.
    return (config.memory_budget_bytes - 2 * config.max_message_bytes) // 2
