"""Numbers in memory: where each is, and that it outlives whoever has written it."""

import multiprocessing
import os
import sys

import pytest

from tensor_reshape.server.metrics.families import CALLS, MAX_CALLS, OPEN_CALLS, OTHER, PROCESS_FAMILIES, REQUEST_BYTES
from tensor_reshape.server.metrics.tallies import CODES, Layout, Tally, make_memory

METHODS = ("/a.service/First", "/a.service/Second")


@pytest.fixture
def layout() -> Layout:
    return Layout(METHODS)


def test_no_two_numbers_are_in_one_place_and_none_is_left_out(layout: Layout):
    places = [
        place
        for family in PROCESS_FAMILIES
        for begin in layout.cells[family].values()
        for place in range(begin, begin + family.width)
    ]
    assert sorted(places) == list(range(layout.size))


def test_each_method_has_each_code_and_so_has_what_is_no_method(layout: Layout):
    methods = [("a.service", "First"), ("a.service", "Second"), (OTHER, OTHER)]
    assert list(layout.cells[CALLS]) == [(*method, code) for method in methods for code in CODES]


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (256, 0), (257, 1), (4**14, 10), (4**14 + 1, 11)])
def test_a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed(layout: Layout, value: int, bucket: int):
    tally = Tally(layout)
    begin = layout.cells[REQUEST_BYTES]["a.service", "Second"]
    tally.observe(REQUEST_BYTES, begin, value)
    expected = [0.0] * len(REQUEST_BYTES.buckets) + [0.0]
    expected[bucket] = 1.0
    assert list(tally.numbers[begin : begin + REQUEST_BYTES.width]) == [*expected, value]
    assert sum(tally.numbers) == value + 1


def test_gauges_are_cleared_and_counters_stay(layout: Layout):
    tally = Tally(layout)
    calls, limit = layout.cells[CALLS]["a.service", "First", "OK"], layout.cells[MAX_CALLS][()]
    tally.numbers[calls] = tally.numbers[limit] = tally.numbers[layout.cells[OPEN_CALLS]["working",]] = 5.0
    tally.clear_gauges()
    assert (tally.numbers[calls], sum(tally.numbers)) == (5.0, 5.0)


def count_and_die(descriptor: int) -> None:
    Tally(Layout(METHODS), descriptor).numbers[7] += 1.0
    os._exit(1)


@pytest.mark.skipif(sys.platform != "linux", reason="memory files are Linux's")
def test_what_a_process_has_counted_outlives_it_and_the_next_one_goes_on(layout: Layout):
    descriptor = make_memory(layout)
    try:
        tally = Tally(layout, descriptor)
        for count in (1.0, 2.0):
            process = multiprocessing.get_context("fork").Process(target=count_and_die, args=(descriptor,))
            process.start()
            process.join()
            assert tally.numbers[7] == count
    finally:
        os.close(descriptor)
