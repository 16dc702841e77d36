"""What is read from a process once a second and written into its counters, because nothing counts it call by call.

Only the housekeeper's thread calls this, and nothing else writes these numbers. A look takes less than a millisecond.
"""

from collections import Counter
from collections.abc import Callable, Collection

from tensor_reshape.server.engine.lifecycle import Lifecycle
from tensor_reshape.server.metrics.families import (
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    OPEN_CALLS,
    OPEN_STREAMS,
    USED_BYTES,
    Family,
)
from tensor_reshape.server.metrics.shared_counters import SharedCounters
from tensor_reshape.server.process.logs import count_lost_records
from tensor_reshape.server.service.header_cache import Lookups

LOOK_SECONDS = 1.0
"""How old a gauge may be. Prometheus asks every few seconds at most."""


class GaugeWriter:
    """Writes what a process does now, and what others count in it, into its counters."""

    def __init__(
        self,
        counters: SharedCounters,
        list_calls: Callable[[], Collection[Lifecycle]],
        streams: Collection[str],
        lookups: Lookups,
    ) -> None:
        """Clears the gauges that another process has left in `counters`.

        Args:
            counters: of the process.
            list_calls: returns the calls under way.
            streams: the full names of the methods that are streams.
            lookups: of headers in the caches, since the start.
        """
        self._counters = counters
        self._list_calls = list_calls
        self._streams = streams
        self._lookups = lookups
        self._added: Counter[tuple[Family, str]] = Counter()  # of what others count, what the counters has already
        counters.clear_gauges()

    def look(self) -> None:
        """Writes what is true now; to be called every LOOK_SECONDS."""
        self._write_calls(self._list_calls())
        dropped, suppressed = count_lost_records()
        self._add(LOOKUPS, hit=self._lookups.hits, miss=self._lookups.misses)
        self._add(LOST_RECORDS, dropped=dropped, suppressed=suppressed)

    def _write_calls(self, lives: Collection[Lifecycle]) -> None:
        # Without the lock of the engine: what a call holds may change between two reads, and is right a second later.
        counters, holdings = self._counters, [life.holdings for life in lives]
        states = Counter(life.state.name.lower() for life in lives)
        for (state,) in counters.cells[OPEN_CALLS]:
            counters.set(OPEN_CALLS, states[state], state)
        counters.set(OPEN_STREAMS, sum(life.method in self._streams for life in lives))
        counters.set(CONNECTIONS, len({life.source.connection for life in lives}))
        counters.set(USED_BYTES, sum(receiving for receiving, _ in holdings), "receiving")
        counters.set(USED_BYTES, sum(working for _, working in holdings), "working")

    def _add(self, family: Family, **counts: int) -> None:
        """Adds what was counted since the last call. Counters of a replaced process continue."""
        for label, count in counts.items():
            self._counters.cells[family][label,][0] += count - self._added[family, label]
            self._added[family, label] = count
