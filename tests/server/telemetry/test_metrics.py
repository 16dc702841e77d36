"""Names and labels of the metrics, the methods that they count, and their values in shared memory."""

import multiprocessing
import os
import re
import sys

import pytest

from in_process import ANY_PORT, hurry_stop
from tensor_reshape.server.config import Config
from tensor_reshape.server.engine.lifecycle import State
from tensor_reshape.server.runner import Runner
from tensor_reshape.server.telemetry.metrics import (
    CALLS,
    COUNTER,
    HISTOGRAM,
    MAX_CALLS,
    PROCESS_FAMILIES,
    REQUEST_BYTES,
    SERVER_FAMILIES,
    VALUES,
    SharedCounters,
    list_methods,
    observe,
)

FAMILIES = (*PROCESS_FAMILIES, *SERVER_FAMILIES)
METHODS = ("/a.service/First", "/a.service/Second")


def test_metric_names_follow_the_prometheus_conventions():
    for family in FAMILIES:
        assert re.fullmatch(r"tensor_reshape_[a-z_]+", family.name)
        assert family.shown_name.endswith("_total") == (family.kind == COUNTER), family.name
        assert (family.kind == HISTOGRAM) == bool(family.buckets), family.name
        assert family.kind != HISTOGRAM or family.name.endswith(("_seconds", "_bytes")), family.name
        assert list(family.buckets) == sorted(set(family.buckets)), family.name
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


def test_states_of_running_calls_are_label_values():
    assert [*VALUES["state"], "done"] == [state.name.lower() for state in State]


def test_every_served_method_is_counted_by_the_metrics():
    runner = Runner(Config(listen=(ANY_PORT,), drain_seconds=0, shutdown_grace_seconds=0))
    try:
        served = set(runner._services[0].methods.names)
    finally:
        hurry_stop(runner)
    assert served <= set(list_methods())


def test_cleared_gauges_leave_the_counters():
    counters = SharedCounters(METHODS)
    calls = counters.cells[CALLS]["a.service", "First", "OK"]
    calls[0] = 5.0
    counters.set(MAX_CALLS, 5)
    counters.clear_gauges()
    assert (calls[0], counters.cells[MAX_CALLS][()][0]) == (5.0, 0.0)


def test_shared_counters_do_not_overlap_in_memory():
    counters = SharedCounters(METHODS)
    cells = [cell for cells in counters.cells.values() for cell in cells.values()]
    for number, cell in enumerate(cells):
        cell[0] = cell[-1] = number
    assert [(cell[0], cell[-1]) for cell in cells] == [(number, number) for number in range(len(cells))]


def test_histogram_observation_counts_in_the_first_fitting_bucket():
    for value, bucket in ((0, 0), (256, 0), (257, 1), (4**14, 10), (4**14 + 1, 11)):
        cell = SharedCounters(METHODS).cells[REQUEST_BYTES]["a.service", "Second"]
        observe(REQUEST_BYTES, cell, value)
        expected = [0.0] * (len(REQUEST_BYTES.buckets) + 1)
        expected[bucket] = 1.0
        assert list(cell) == [*expected, value]


def count_and_die(descriptor: int) -> None:
    SharedCounters(METHODS, descriptor).cells[MAX_CALLS][()][0] += 1.0
    os._exit(1)


@pytest.mark.skipif(sys.platform != "linux", reason="needs memfd_create, of Linux")
def test_shared_counters_survive_the_end_of_their_process():
    descriptor = os.memfd_create("test")
    try:
        counters = SharedCounters(METHODS, descriptor)
        for count in (1.0, 2.0):
            process = multiprocessing.get_context("fork").Process(target=count_and_die, args=(descriptor,))
            process.start()
            process.join()
            assert counters.cells[MAX_CALLS][()][0] == count
    finally:
        os.close(descriptor)
