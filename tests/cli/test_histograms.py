"""Latencies for people."""

import statistics

from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.cli.histograms import draw_histogram, find_percentile, format_latency


def test_percentile_is_a_latency_that_was_measured():
    percentiles = {50: 5, 90: 9, 99: 10, 99.9: 10, 100: 10, 0: 1}
    assert {percent: find_percentile(range(1, 11), percent) for percent in percentiles} == percentiles


@given(st.lists(st.integers(0, 10**10), min_size=1), st.sampled_from([50.0, 90.0, 99.0]))
def test_share_of_latencies_up_to_a_percentile_is_large_enough(latencies: list[int], percent: float):
    found = find_percentile(sorted(latencies), percent)
    assert found in latencies
    assert statistics.mean(value <= found for value in latencies) * 100 >= percent - 1e-9


def test_latency_has_three_digits():
    texts = {0: "0.00 ns", 999: "999 ns", 1000: "1.00 us", 12_345: "12.3 us", 1_234_567: "1.23 ms", 2 * 10**9: "2.00 s"}
    assert {nanoseconds: format_latency(nanoseconds) for nanoseconds in texts} == texts


@given(st.lists(st.integers(0, 10**11), min_size=1), st.integers(40, 200))
def test_every_call_is_in_one_step_and_every_line_fits(latencies: list[int], columns: int):
    lines = list(draw_histogram(sorted(latencies), columns))
    assert max(map(len, lines)) <= columns
    assert sum(int(line.partition(" - ")[2].split()[2]) for line in lines) == len(latencies)


def test_single_slow_call_has_a_bar():
    assert list(draw_histogram([1000] * 5000 + [70_000], 50)) == [
        "1.00 us - 2.00 us  5000  #########################",
        "2.00 us - 5.00 us     0",
        "5.00 us - 10.0 us     0",
        "10.0 us - 20.0 us     0",
        "20.0 us - 50.0 us     0",
        " 50.0 us - 100 us     1  #",
    ]
