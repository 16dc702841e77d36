"""The counters of calls agree with the records of observers. Gauges show the state of a process."""

import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from engine_calls import METHOD, Caller, make, name_peer
from tensor_reshape.rules.errors import LimitError, Reason
from tensor_reshape.server.calls.observers import CallLog
from tensor_reshape.server.calls.results import GONE, OK, CallResult, EndedCall
from tensor_reshape.server.calls.sources import find_source
from tensor_reshape.server.engine.lifecycle import IllegalEventError, Lifecycle
from tensor_reshape.server.process.logs import RECORDS_PER_SECOND, QueuedHandler
from tensor_reshape.server.service.header_cache import Lookups
from tensor_reshape.server.telemetry.call_counters import CallCounters, write_calls
from tensor_reshape.server.telemetry.call_logs import AccessLog
from tensor_reshape.server.telemetry.metrics import (
    CALL_DURATION,
    CALLS,
    CONNECTIONS,
    LOOKUPS,
    LOST_RECORDS,
    OPEN_CALLS,
    OPEN_STREAMS,
    OTHER,
    PROCESSING,
    RECEIVE,
    REJECTIONS,
    REQUEST_BYTES,
    RESPONSE_BYTES,
    USED_BYTES,
    CopiedCounters,
    Family,
    SharedCounters,
)
from tensor_reshape.wire.methods import split_method

RESULTS = (
    CallResult("OK"),
    CallResult("INVALID_ARGUMENT", str(Reason.NOT_DIVISIBLE)),
    CallResult("INTERNAL", "INTERNAL_ERROR"),
)


def count(counters: SharedCounters, family: Family, *labels: str) -> float:
    return counters.cells[family][labels][0]


class Counted:
    """An engine with counters and observers."""

    def __init__(self, *methods: str, max_calls: int = 2048, observers: Sequence[CallLog] = ()) -> None:
        self.counters = SharedCounters(methods or (METHOD,))
        self.calls = CallCounters(self.counters, methods or (METHOD,))
        self.engine = make(4, max_calls=max_calls, journals=(self.calls,), observers=observers)

    def call(self) -> Caller:
        return Caller(self.engine)

    def count(self, family: Family, *labels: str) -> float:
        return count(self.counters, family, *labels)

    def read(self, family: Family, method: str = METHOD) -> tuple[float, float]:
        """Returns the number of values in a histogram, and their sum."""
        *counts, total = self.counters.cells[family][split_method(method)]
        return sum(counts), total

    def list_codes(self) -> dict[tuple[str, ...], float]:
        return {labels: count for labels, (count,) in self.counters.cells[CALLS].items() if count}


def test_metrics_count_a_call_when_it_finishes():
    counted = Counted()
    caller = counted.call().arrive(100).end(30)
    assert counted.list_codes() == {}
    caller.leave()
    assert counted.list_codes() == {(*split_method(METHOD), "OK"): 1.0}
    assert counted.read(REQUEST_BYTES) == (1, 100)
    assert counted.read(RESPONSE_BYTES) == (1, 30)
    count, seconds = counted.read(CALL_DURATION)
    assert (count, 0 <= seconds < 60) == (1, True)


def test_metrics_count_stream_messages_before_the_call_ends():
    counted = Counted()
    counted.call().arrive(100).respond(10, 20).sent(10)
    assert (counted.read(REQUEST_BYTES), counted.read(RESPONSE_BYTES)) == ((1, 100), (1, 10))


def test_metrics_count_an_unknown_method_as_other():
    counted = Counted("/another.service/Method")
    counted.call().arrive(5).end(5).leave()
    counted.calls.count_other()
    assert counted.list_codes() == {(OTHER, OTHER, "OK"): 1.0, (OTHER, OTHER, "UNIMPLEMENTED"): 1.0}


def test_metrics_count_a_rejected_call_by_its_reason():
    counted = Counted(max_calls=1)
    rejected = Lifecycle(counted.call(), METHOD)
    with pytest.raises(LimitError) as raised:
        counted.engine.enter(rejected, find_source(name_peer(2)))
    counted.engine.end(rejected, CallResult("RESOURCE_EXHAUSTED", str(raised.value.reason)))
    counted.engine.release(rejected)
    assert counted.count(REJECTIONS, "SERVER_BUSY") == 1
    assert counted.count(CALLS, *split_method(METHOD), "RESOURCE_EXHAUSTED") == 1


class Watcher(AccessLog):
    """An observer that sums the records of ended calls."""

    def __init__(self) -> None:
        self.requests = self.request_bytes = self.responses = self.response_bytes = 0
        self.results: list[CallResult] = []

    def write(self, call: EndedCall) -> None:
        self.requests += call.request_messages
        self.request_bytes += call.request_bytes
        self.responses += call.response_messages
        self.response_bytes += call.response_bytes
        self.results.append(call.result or GONE)


def move_somehow(caller: Caller, rng: random.Random) -> None:
    """Sends an event to a call. An event that is illegal in its state has no effect."""
    engine, life = caller.engine, caller.life
    moves: tuple[Callable[[], object], ...] = (
        lambda: caller.arrive(rng.choice([None, 0, 7, 5000])),
        lambda: engine.end(life, OK, 40, received=7),
        lambda: caller.work(10),
        caller.begin_work,
        lambda: caller.respond(rng.randrange(9)),
        lambda: caller.sent(3) if life.unsent else None,
        lambda: caller.perform(engine.end(life, rng.choice(RESULTS), rng.choice([0, 40]))[1]),
        lambda: caller.perform(engine.release(life, gone=rng.random() < 0.5)),
    )
    with suppress(IllegalEventError):
        rng.choice(moves)()


@pytest.mark.parametrize("seed", range(5))
def test_call_counters_match_observed_calls_for_random_events(seed: int):
    rng, watcher = random.Random(seed), Watcher()
    counted = Counted(observers=[watcher])
    for _ in range(200):
        caller = counted.call()
        for _ in range(rng.randrange(20)):
            move_somehow(caller, rng)
        caller.leave()
        caller.end().leave()  # the end of the thread that worked on the call
    results = [result.code for result in watcher.results]
    assert {labels[-1]: count for labels, count in counted.list_codes().items()} == {
        code: results.count(code) for code in set(results)
    }
    assert sum(counted.count(REJECTIONS, result.reason) for result in RESULTS[1:]) == sum(
        bool(result.reason) for result in watcher.results
    )
    assert counted.read(REQUEST_BYTES) == (watcher.requests, watcher.request_bytes)
    assert counted.read(RESPONSE_BYTES) == (watcher.responses, watcher.response_bytes)


@pytest.fixture
def counters() -> SharedCounters:
    return SharedCounters([METHOD])


def test_metrics_show_running_calls_per_state_and_used_memory(counters: SharedCounters):
    engine = make(4)
    Caller(engine, name_peer(1)).arrive(100).work(50)
    for peer in (name_peer(1), name_peer(2)):
        Caller(engine, peer)
    write_calls(counters, engine.list_calls(), {METHOD})
    assert (count(counters, OPEN_CALLS, "receiving"), count(counters, OPEN_CALLS, "queued")) == (2, 1)
    assert (count(counters, OPEN_STREAMS), count(counters, CONNECTIONS)) == (3, 2)
    used = count(counters, USED_BYTES, RECEIVE) + count(counters, USED_BYTES, PROCESSING)
    assert used == engine.used_bytes > 0


def test_metrics_gauges_of_the_previous_process_are_cleared(counters: SharedCounters):
    counters.set(OPEN_STREAMS, 5)
    CopiedCounters(counters, Lookups())
    assert count(counters, OPEN_STREAMS) == 0


def test_metrics_counters_continue_from_the_previous_process(counters: SharedCounters):
    for _ in range(2):
        lookups = Lookups()
        copied = CopiedCounters(counters, lookups)
        for _ in range(3):
            lookups.hits += 2
            lookups.misses += 1
            copied.update()
    assert (count(counters, LOOKUPS, "hit"), count(counters, LOOKUPS, "miss")) == (12, 6)


def test_metrics_count_lost_log_records_by_cause(counters: SharedCounters, monkeypatch: pytest.MonkeyPatch):
    handler = QueuedHandler(-1)
    handler.addFilter(handler.limit)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    copied = CopiedCounters(counters, Lookups())
    for _ in range(RECORDS_PER_SECOND + 5):
        handler.handle(logging.makeLogRecord({"msg": "often", "levelno": logging.WARNING, "name": "test"}))
    handler.flush()  # fails, because the descriptor is invalid
    copied.update()
    # Two of the dropped records report the suppressed and the dropped ones.
    assert (count(counters, LOST_RECORDS, "suppressed"), count(counters, LOST_RECORDS, "dropped")) == (5, 12)
