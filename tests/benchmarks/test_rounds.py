from itertools import pairwise

import pytest
from benchmarks.contestants import CONTESTANTS, Cell
from benchmarks.rounds import Entry, Sample, arrange_round, format_number, format_quartiles


def build_entry(*calls: int | None, status: str = "") -> Entry:
    """Returns an entry with this number of calls per second in each round; None: no measurement in the round."""
    samples = {number: Sample(count, 1, 0.1, 0.2) for number, count in enumerate(calls) if count is not None}
    return Entry(CONTESTANTS[0], Cell(1024), status, samples=samples)


def test_benchmark_ratios_compare_measurements_of_the_same_round():
    assert build_entry(2, 30).compare(build_entry(1, 10)) == [2, 3]
    assert build_entry(2, 4, 6).compare(build_entry(1, None, 1)) == [2, 6]
    assert build_entry(2).compare(build_entry(1, status="failed")) == []


def test_benchmark_figures_are_formatted_with_three_significant_digits():
    numbers = {12_345: "12,345", 45.06: "45.1", 2.614: "2.61", 0.67: "0.670", 0.0557: "0.0557"}
    assert {number: format_number(number) for number in numbers} == numbers
    assert (format_quartiles([1, 2, 3, 4, 5]), format_quartiles([])) == ("3.00 (2.00-4.00)", "-")


@pytest.mark.parametrize(("count", "rounds", "times"), [(10, 10, 1), (2, 2, 1), (9, 18, 2), (3, 6, 2)])
def test_benchmark_order_balances_which_program_runs_after_which(count: int, rounds: int, times: int):
    entries = [build_entry(number) for number in range(count)]
    orders = [[entries.index(entry) for entry in arrange_round(entries, number)] for number in range(rounds)]
    pairs = [pair for order in orders for pair in pairwise(order)]

    assert all(sorted(order) == list(range(count)) for order in orders)
    assert {pairs.count(pair) for pair in pairs} == {times}
    assert len({*pairs}) == count * (count - 1)
