"""The metrics of a process that are updated once a second instead of with each call."""

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from tensor_reshape.server.process.logs import count_lost_records
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.server.telemetry.metric_families import (
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    OPEN_CALLS,
    OPEN_STREAMS,
    PROCESSING,
    RECEIVE,
    USED_BYTES,
)
from tensor_reshape.server.telemetry.shared_counters import SharedCounters

if TYPE_CHECKING:
    from tensor_reshape.server.engine.lifecycle import Lifecycle

UPDATE_SECONDS = 1.0
"""Seconds between two updates. Prometheus scrapes the metrics less often."""


class CopiedCounters:
    """Copies the counters of modules that count events themselves, and adds the counts of previous processes."""

    def __init__(self, counters: SharedCounters, lookups: Lookups) -> None:
        """Clears the gauges that a previous process has written to `counters`, and reads its counts.

        Args:
            counters: the counters of the process.
            lookups: the number of cache lookups since the start of the process.
        """
        self._counters = counters
        self._lookups = lookups
        self._bases = {
            (family, labels): cell[0]
            for family in (LOOKUPS, LOST_RECORDS)
            for labels, cell in counters.cells[family].items()
        }
        counters.clear_gauges()

    def update(self) -> None:
        """Writes the current counts. Call this method every UPDATE_SECONDS."""
        dropped, suppressed = count_lost_records()
        counts = {"hit": self._lookups.hits, "miss": self._lookups.misses, "dropped": dropped, "suppressed": suppressed}
        for (family, (label,)), base in self._bases.items():
            self._counters.set(family, base + counts[label], label)


def write_calls(counters: SharedCounters, lives: "Collection[Lifecycle]", streams: Collection[str]) -> None:
    """Writes the gauges of the running calls of gRPC. An update takes less than a millisecond.

    Args:
        counters: the counters of the process.
        lives: the running calls. They are read without the engine's lock, so a call may change in the meantime. Then
            the next update corrects the gauges.
        streams: the full names of the streaming methods.
    """
    holdings, states = [life.holdings for life in lives], Counter(life.state.name.lower() for life in lives)
    for (state,) in counters.cells[OPEN_CALLS]:
        counters.set(OPEN_CALLS, states[state], state)
    counters.set(OPEN_STREAMS, sum(life.method in streams for life in lives))
    counters.set(CONNECTIONS, len({life.source.connection for life in lives}))
    counters.set(USED_BYTES, sum(received for received, _ in holdings), RECEIVE)
    counters.set(USED_BYTES, sum(processed for _, processed in holdings), PROCESSING)
