"""Latencies for people."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_reshape.cli.histograms import draw_histogram, find_percentile, format_latency


@pytest.mark.parametrize(("percent", "expected"), [(50, 5), (90, 9), (99, 10), (99.9, 10), (100, 10), (0, 1)], ids=str)
def test_a_percentile_is_a_latency_that_was_measured(percent: float, expected: int):
    assert find_percentile(range(1, 11), percent) == expected


@given(st.lists(st.integers(0, 10**10), min_size=1), st.sampled_from([50.0, 90.0, 99.0]))
def test_as_many_as_it_says_are_not_above_a_percentile(latencies: list[int], percent: float):
    found = find_percentile(sorted(latencies), percent)
    assert found in latencies
    assert statistics.mean(value <= found for value in latencies) * 100 >= percent - 1e-9


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0.00 ns"),
        (999, "999 ns"),
        (1000, "1.00 us"),
        (12_345, "12.3 us"),
        (1_234_567, "1.23 ms"),
        (2 * 10**9, "2.00 s"),
    ],
)
def test_a_latency_has_three_digits(nanoseconds: int, text: str):
    assert format_latency(nanoseconds) == text


@given(st.lists(st.integers(0, 10**11), min_size=1), st.integers(40, 200))
def test_every_call_is_in_one_step_and_every_line_fits(latencies: list[int], columns: int):
    lines = list(draw_histogram(sorted(latencies), columns))
    assert max(map(len, lines)) <= columns
    assert sum(int(line.partition(" - ")[2].split()[2]) for line in lines) == len(latencies)


def test_a_single_slow_call_has_a_bar():
    assert list(draw_histogram([1000] * 5000 + [70_000], 50)) == [
        "1.00 us - 2.00 us  5000  #########################",
        "2.00 us - 5.00 us     0",
        "5.00 us - 10.0 us     0",
        "10.0 us - 20.0 us     0",
        "20.0 us - 50.0 us     0",
        " 50.0 us - 100 us     1  #",
    ]
