"""Values of a process that are read once a second instead of being counted with each call.

Only the housekeeping thread writes these values. It takes less than a millisecond each time.
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
    PROCESSING,
    RECEIVE,
    USED_BYTES,
    Family,
)
from tensor_reshape.server.metrics.shared_counters import SharedCounters
from tensor_reshape.server.process.logs import count_lost_records
from tensor_reshape.server.service.header_cache import Lookups

LOOK_SECONDS = 1.0
"""Interval of the updates. Prometheus scrapes less often."""


class GaugeWriter:
    """Writes the gauges of a process, and counters that other modules keep."""

    def __init__(
        self,
        counters: SharedCounters,
        list_calls: Callable[[], Collection[Lifecycle]],
        streams: Collection[str],
        lookups: Lookups,
    ) -> None:
        """Clears the gauges of the previous process that used `counters`.

        Args:
            counters: the counters of the process.
            list_calls: returns the running calls.
            streams: the full names of the streaming methods.
            lookups: the number of cache lookups since the start of the process.
        """
        self._counters = counters
        self._list_calls = list_calls
        self._streams = streams
        self._lookups = lookups
        self._added: Counter[tuple[Family, str]] = Counter()  # counts that are already in `counters`
        counters.clear_gauges()

    def look(self) -> None:
        """Writes the current values. Call it every LOOK_SECONDS."""
        self._write_calls(self._list_calls())
        dropped, suppressed = count_lost_records()
        self._add(LOOKUPS, hit=self._lookups.hits, miss=self._lookups.misses)
        self._add(LOST_RECORDS, dropped=dropped, suppressed=suppressed)

    def _write_calls(self, lives: Collection[Lifecycle]) -> None:
        # Without the engine's lock. A call may change between two reads, but the next update corrects that.
        counters, holdings = self._counters, [life.holdings for life in lives]
        states = Counter(life.state.name.lower() for life in lives)
        for (state,) in counters.cells[OPEN_CALLS]:
            counters.set(OPEN_CALLS, states[state], state)
        counters.set(OPEN_STREAMS, sum(life.method in self._streams for life in lives))
        counters.set(CONNECTIONS, len({life.source.connection for life in lives}))
        counters.set(USED_BYTES, sum(received for received, _ in holdings), RECEIVE)
        counters.set(USED_BYTES, sum(processed for _, processed in holdings), PROCESSING)

    def _add(self, family: Family, **counts: int) -> None:
        """Adds the increase since the last call, because `counters` also has the counts of previous processes."""
        for label, count in counts.items():
            self._counters.cells[family][label,][0] += count - self._added[family, label]
            self._added[family, label] = count
