"""Metrics in shared memory."""

import multiprocessing
import os
import sys

import pytest

from tensor_reshape.server.telemetry.metrics import (
    MAX_CALLS,
    REQUEST_BYTES,
    SharedCounters,
    observe,
)

METHODS = ("/a.service/First", "/a.service/Second")


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
