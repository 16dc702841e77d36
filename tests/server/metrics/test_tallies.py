"""Numbers in shared memory: their places, and that they outlive the process that counts."""

import multiprocessing
import os
import sys

import pytest

from tensor_reshape.server.metrics.families import CALLS, MAX_CALLS, OPEN_CALLS, OTHER, PROCESS_FAMILIES, REQUEST_BYTES
from tensor_reshape.server.metrics.tallies import CODES, Layout, Tally, make_memory

METHODS = ("/a.service/First", "/a.service/Second")


LAYOUT = Layout(METHODS)


def test_each_number_has_its_own_place():
    places = [
        place
        for family in PROCESS_FAMILIES
        for begin in LAYOUT.cells[family].values()
        for place in range(begin, begin + family.width)
    ]
    assert sorted(places) == list(range(LAYOUT.size))


def test_each_method_and_other_has_each_code():
    methods = [("a.service", "First"), ("a.service", "Second"), (OTHER, OTHER)]
    assert list(LAYOUT.cells[CALLS]) == [(*method, code) for method in methods for code in CODES]


def test_value_is_in_the_first_bucket_that_holds_it():
    begin = LAYOUT.cells[REQUEST_BYTES]["a.service", "Second"]
    for value, bucket in ((0, 0), (256, 0), (257, 1), (4**14, 10), (4**14 + 1, 11)):
        tally = Tally(LAYOUT)
        tally.observe(REQUEST_BYTES, begin, value)
        expected = [0.0] * (len(REQUEST_BYTES.buckets) + 1)
        expected[bucket] = 1.0
        assert list(tally.numbers[begin : begin + REQUEST_BYTES.width]) == [*expected, value]
        assert sum(tally.numbers) == value + 1


def test_gauges_are_cleared_and_counters_stay():
    tally = Tally(LAYOUT)
    calls, limit = LAYOUT.cells[CALLS]["a.service", "First", "OK"], LAYOUT.cells[MAX_CALLS][()]
    tally.numbers[calls] = tally.numbers[limit] = tally.numbers[LAYOUT.cells[OPEN_CALLS]["working",]] = 5.0
    tally.clear_gauges()
    assert (tally.numbers[calls], sum(tally.numbers)) == (5.0, 5.0)


def count_and_die(descriptor: int) -> None:
    Tally(LAYOUT, descriptor).numbers[7] += 1.0
    os._exit(1)


@pytest.mark.skipif(sys.platform != "linux", reason="memory files are Linux's")
def test_counts_outlive_their_process():
    descriptor = make_memory(LAYOUT)
    try:
        tally = Tally(LAYOUT, descriptor)
        for count in (1.0, 2.0):
            process = multiprocessing.get_context("fork").Process(target=count_and_die, args=(descriptor,))
            process.start()
            process.join()
            assert tally.numbers[7] == count
    finally:
        os.close(descriptor)
