"""What of a process is not counted call by call: read now and then, and written into its tally.

- One thread, the housekeeper's, calls this; the numbers that it writes are written by nobody else.
- What others count from the start of the process is added as it grows: the tally may hold what a process before this
  one has counted.
- A look is made once a second, and takes less than a millisecond.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from tensor_reshape.server.engine.lifecycle import Lifecycle
from tensor_reshape.server.metrics.families import (
    BUDGET_BYTES,
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    MAX_CALLS,
    MAX_CONNECTIONS,
    OPEN_CALLS,
    OPEN_STREAMS,
    USED_BYTES,
    Family,
)
from tensor_reshape.server.metrics.tallies import Labels, Tally
from tensor_reshape.server.process.logs import count_lost_records
from tensor_reshape.server.service.header_cache import Lookups

LOOK_SECONDS = 1.0
"""How old what is shown may be; Prometheus asks every few seconds at most."""


class Process(NamedTuple):
    """What is looked at of a process that serves.

    Attributes:
        list_open: returns the calls under way.
        streams: the names of the methods that are streams, in full.
        lookups: of headers in the caches, since the start.
        max_calls: how many may be under way.
        max_connections: how many are taken, on all addresses.
        pool_bytes: the size of each pool of the memory budget.
    """

    list_open: Callable[[], Collection[Lifecycle]]
    streams: frozenset[str]
    lookups: Lookups
    max_calls: int
    max_connections: int
    pool_bytes: int


class GaugeWriter:
    """Writes what a process is like into its tally."""

    def __init__(self, tally: Tally, process: Process) -> None:
        """Clears what another process has left in `tally`, and notes the bounds, which do not change."""
        self._tally = tally
        self._process = process
        self._look_at = -math.inf
        self._counted: dict[tuple[Family, str], int] = {}  # what has been added already
        tally.clear_gauges()
        self._set(MAX_CALLS, process.max_calls)
        self._set(MAX_CONNECTIONS, process.max_connections)
        self._set_each(BUDGET_BYTES, (process.pool_bytes, process.pool_bytes))

    def look(self, now: float) -> None:
        """Writes what is so; to be called many times a second, `now` by `time.monotonic`."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        self._write_calls(self._process.list_open())
        lookups = self._process.lookups
        self._add_each(LOOKUPS, (lookups.hits, lookups.misses))
        self._add_each(LOST_RECORDS, count_lost_records())

    def _write_calls(self, lives: Collection[Lifecycle]) -> None:
        # Without the lock of the engine: what one of them holds may change between two reads, and is right a second
        # later.
        states = Counter(life.state.name.lower() for life in lives)
        holdings = [life.holdings for life in lives]
        for (state,) in self._list_labels(OPEN_CALLS):
            self._set(OPEN_CALLS, states[state], state)
        self._set(OPEN_STREAMS, sum(life.method in self._process.streams for life in lives))
        self._set(CONNECTIONS, len({life.source.connection for life in lives}))
        self._set_each(USED_BYTES, (sum(one for one, _ in holdings), sum(one for _, one in holdings)))

    def _list_labels(self, family: Family) -> list[Labels]:
        return list(self._tally.layout.cells[family])

    def _set(self, family: Family, value: int, *labels: str) -> None:
        self._tally.numbers[self._tally.layout.cells[family][labels]] = value

    def _set_each(self, family: Family, values: tuple[int, ...]) -> None:
        for labels, value in zip(self._list_labels(family), values, strict=True):
            self._set(family, value, *labels)

    def _add_each(self, family: Family, values: tuple[int, ...]) -> None:
        for (label,), value in zip(self._list_labels(family), values, strict=True):
            begin = self._tally.layout.cells[family][label,]
            self._tally.numbers[begin] += value - self._counted.get((family, label), 0)
            self._counted[family, label] = value
