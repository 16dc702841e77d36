"""The metrics of a process that are updated once a second instead of with each call.

Only the housekeeping thread writes these metrics. An update takes less than a millisecond.
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

UPDATE_SECONDS = 1.0
"""Seconds between two updates of the gauges. Prometheus scrapes the metrics less often."""

_COPIED = (LOOKUPS, LOST_RECORDS)  # these counters get their values from other modules, which count the events


class GaugeWriter:
    """Writes the gauges of a process, and copies counters of other modules."""

    def __init__(
        self,
        counters: SharedCounters,
        list_calls: Callable[[], Collection[Lifecycle]],
        streams: Collection[str],
        lookups: Lookups,
    ) -> None:
        """Clears the gauges that a previous process has written to `counters`.

        Args:
            counters: the counters of the process.
            list_calls: function that returns the running calls.
            streams: the full names of the streaming methods.
            lookups: the number of cache lookups since the start of the process.
        """
        self._counters = counters
        self._list_calls = list_calls
        self._streams = streams
        self._lookups = lookups
        # The base of a counter is its value from previous processes, to which this process adds its own count.
        self._bases = {
            family: {labels: cell[0] for labels, cell in counters.cells[family].items()} for family in _COPIED
        }
        counters.clear_gauges()

    def update(self) -> None:
        """Writes the current values. Call this method every UPDATE_SECONDS."""
        self._write_calls(self._list_calls())
        dropped, suppressed = count_lost_records()
        self._copy(LOOKUPS, hit=self._lookups.hits, miss=self._lookups.misses)
        self._copy(LOST_RECORDS, dropped=dropped, suppressed=suppressed)

    def _write_calls(self, lives: Collection[Lifecycle]) -> None:
        # This method reads the list of calls without holding the engine's lock. If a call changes while the calls are
        # read, the next update corrects the metrics.
        counters, holdings = self._counters, [life.holdings for life in lives]
        states = Counter(life.state.name.lower() for life in lives)
        for (state,) in counters.cells[OPEN_CALLS]:
            counters.set(OPEN_CALLS, states[state], state)
        counters.set(OPEN_STREAMS, sum(life.method in self._streams for life in lives))
        counters.set(CONNECTIONS, len({life.source.connection for life in lives}))
        counters.set(USED_BYTES, sum(received for received, _ in holdings), RECEIVE)
        counters.set(USED_BYTES, sum(processed for _, processed in holdings), PROCESSING)

    def _copy(self, family: Family, **counts: int) -> None:
        for label, count in counts.items():
            self._counters.set(family, self._bases[family][label,] + count, label)
