"""Gauges of a process."""

import logging

import pytest

from engine_calls import METHOD, Caller, make, name_peer
from tensor_reshape.server.process.logs import RECORDS_PER_SECOND, QueuedHandler
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.server.telemetry.call_counters import write_calls
from tensor_reshape.server.telemetry.metrics import (
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    OPEN_CALLS,
    OPEN_STREAMS,
    PROCESSING,
    RECEIVE,
    USED_BYTES,
    CopiedCounters,
    Family,
    SharedCounters,
)


class Looked:
    """A process and its gauges."""

    def __init__(self, counters: SharedCounters) -> None:
        self.counters = counters
        self.engine = make(4)
        self.lookups = Lookups()
        self.copied = CopiedCounters(counters, self.lookups)

    def read(self, family: Family, *labels: str) -> float:
        return self.counters.cells[family][labels][0]


@pytest.fixture
def counters() -> SharedCounters:
    return SharedCounters([METHOD])


def test_metrics_show_running_calls_per_state_and_used_memory(counters: SharedCounters):
    looked = Looked(counters)
    Caller(looked.engine, name_peer(1)).arrive(100).work(50)
    for peer in (name_peer(1), name_peer(2)):
        Caller(looked.engine, peer)
    write_calls(counters, looked.engine.list_calls(), {METHOD})
    assert (looked.read(OPEN_CALLS, "receiving"), looked.read(OPEN_CALLS, "queued")) == (2, 1)
    assert (looked.read(OPEN_STREAMS), looked.read(CONNECTIONS)) == (3, 2)
    used = looked.read(USED_BYTES, RECEIVE) + looked.read(USED_BYTES, PROCESSING)
    assert used == looked.engine.used_bytes > 0


def test_metrics_gauges_of_the_previous_process_are_cleared(counters: SharedCounters):
    counters.set(OPEN_STREAMS, 5)
    assert Looked(counters).read(OPEN_STREAMS) == 0


def test_metrics_counters_continue_from_the_previous_process(counters: SharedCounters):
    for _ in range(2):
        looked = Looked(counters)
        for _ in range(3):
            looked.lookups.hits += 2
            looked.lookups.misses += 1
            looked.copied.update()
    assert (looked.read(LOOKUPS, "hit"), looked.read(LOOKUPS, "miss")) == (12, 6)


def test_metrics_count_lost_log_records_by_cause(counters: SharedCounters, monkeypatch: pytest.MonkeyPatch):
    handler = QueuedHandler(-1)
    handler.addFilter(handler.limit)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    looked = Looked(counters)
    for _ in range(RECORDS_PER_SECOND + 5):
        handler.handle(logging.makeLogRecord({"msg": "often", "levelno": logging.WARNING, "name": "test"}))
    handler.flush()  # fails, because the descriptor is invalid
    looked.copied.update()
    # Two of the dropped records report the suppressed and the dropped ones.
    assert (looked.read(LOST_RECORDS, "suppressed"), looked.read(LOST_RECORDS, "dropped")) == (5, 12)
