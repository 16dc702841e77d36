"""Gauges of a process, which are read from time to time."""

import logging
import time

import pytest

from engine_calls import METHOD, Caller, make, name_peer
from tensor_reshape.server.engine.lifecycle import Lifecycle
from tensor_reshape.server.metrics.call_tallies import CallTally
from tensor_reshape.server.metrics.families import (
    BUDGET_BYTES,
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    MAX_CALLS,
    OPEN_CALLS,
    OPEN_STREAMS,
    USED_BYTES,
    Family,
)
from tensor_reshape.server.metrics.gauges import LOOK_SECONDS, GaugeWriter, Process
from tensor_reshape.server.metrics.tallies import Layout, Tally
from tensor_reshape.server.process.log_queue import RECORDS_PER_SECOND, QueuedHandler
from tensor_reshape.server.service.header_cache import Lookups


class Looked:
    """A process, and how often its gauges are read."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.calls = CallTally(tally)
        self.engine = make(4, journal=self.calls)
        self.lookups = Lookups()
        self.looks = 0
        process = Process(self.list_open, frozenset({METHOD}), self.lookups, 100, 10, 4096)
        self.gauges = GaugeWriter(tally, process)

    def list_open(self) -> tuple[Lifecycle, ...]:
        self.looks += 1
        return self.calls.list_open()

    def read(self, family: Family, *labels: str) -> float:
        return self.tally.numbers[self.tally.layout.cells[family][labels]]


@pytest.fixture
def tally() -> Tally:
    return Tally(Layout([METHOD]))


def test_calls_are_counted_by_state_with_their_memory(tally: Tally):
    looked = Looked(tally)
    Caller(looked.engine, name_peer(1)).arrive(100).work(50)
    for peer in (name_peer(1), name_peer(2)):
        Caller(looked.engine, peer)
    looked.gauges.look(0.0)
    assert (looked.read(OPEN_CALLS, "receiving"), looked.read(OPEN_CALLS, "queued")) == (2, 1)
    assert (looked.read(OPEN_STREAMS), looked.read(MAX_CALLS), looked.read(CONNECTIONS)) == (3, 100, 2)
    assert (looked.read(BUDGET_BYTES, "receiving"), looked.read(BUDGET_BYTES, "working")) == (4096, 4096)
    used = looked.read(USED_BYTES, "receiving") + looked.read(USED_BYTES, "working")
    assert used == looked.engine.used_bytes > 0


def test_gauges_are_read_once_a_second(tally: Tally):
    looked = Looked(tally)
    for now in (0.0, LOOK_SECONDS / 2):
        looked.gauges.look(now)
    assert looked.looks == 1
    looked.gauges.look(LOOK_SECONDS)
    assert looked.looks == 2


def test_counts_of_a_former_process_are_added_to(tally: Tally):
    for _ in range(2):
        looked = Looked(tally)
        for _ in range(3):
            looked.lookups.hits += 2
            looked.lookups.misses += 1
            looked.gauges.look(time.monotonic() + looked.lookups.hits)
    assert (looked.read(LOOKUPS, "hit"), looked.read(LOOKUPS, "miss")) == (12, 6)


def test_lost_log_records_are_counted(tally: Tally, monkeypatch: pytest.MonkeyPatch):
    handler = QueuedHandler(-1)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    looked = Looked(tally)
    for _ in range(RECORDS_PER_SECOND + 5):
        handler.handle(logging.makeLogRecord({"msg": "often", "levelno": logging.WARNING, "name": "test"}))
    handler.flush()  # to a descriptor that is none
    looked.gauges.look(0.0)
    # The sum of those above the rate is a record as well, and as little written.
    assert (looked.read(LOST_RECORDS, "suppressed"), looked.read(LOST_RECORDS, "dropped")) == (5, 11)
