"""The order of measurements, their figures and verdicts, and the summary in the README."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.contestants import CONTESTANTS, KIB, MIB, SERVED, Cell
from benchmarks.rounds import Entry, Sample, arrange_round, format_number, format_quartiles
from benchmarks.suites.ab import build_tables
from benchmarks.suites.bars import BARS, Bar, find_verdict, judge
from benchmarks.suites.useful import CELLS
from benchmarks.suites.useful import build_tables as build_useful_tables
from benchmarks.tables import (
    LEAST_ROUNDS,
    SLOWER,
    SUMMARY,
    Table,
    build_summary,
    read_summary,
    read_tables,
    write_summary,
)

from documents import README, ROOT


def build_entry(*calls: int | None, status: str = "") -> Entry:
    """Returns an entry with this number of calls per second in each round; None: no measurement in the round."""
    samples = {number: Sample(count, 1, 1, 1) for number, count in enumerate(calls) if count is not None}
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


def build_timed(*seconds: float) -> Entry:
    samples = {number: Sample(1, one, one, one) for number, one in enumerate(seconds)}
    return Entry(CONTESTANTS[0], Cell(1024), samples=samples)


def test_comparison_verdict_requires_both_quartiles_on_one_side_of_1():
    for seconds, verdict in (
        ([1.1] * 7 + [0.9], "slower"),
        ([0.9] * 7 + [1.1], "faster"),
        ([0.9] * 4 + [1.1] * 4, "no difference"),
        ([1.1] * 7, "too few rounds"),
    ):
        (table,) = build_tables([[build_timed(*[1.0] * len(seconds)), build_timed(*seconds)]])
        assert table.rows[0][-1] == verdict, seconds


def test_version_comparison_table_shows_the_error_of_a_failed_version():
    (table,) = build_tables([[build_timed(1.0), build_entry(status="failed: AttributeError")]])
    assert table.rows[0][2:5] == ("1,000,000", "failed: AttributeError", "-")


def test_version_comparison_command_reports_both_versions():
    works = ("--works", "1 KiB, 1 client", "--rounds", "2", "--seconds", "0.01")
    command = [sys.executable, "-m", "benchmarks", "ab", "--against", sys.executable, *works]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    runs, table = read_tables(done.stdout)

    assert ", base " in runs.rows[0][1]  # both commits
    assert [row[0] for row in table.rows] == ["unary, stock channel", "unary, SDK", "unary, SDK, with the experiment"]
    assert all(text[:1].isdigit() for row in table.rows for text in row[2:5])


PLACE = Cell(MIB)
FASTER = Bar("at least 2 x stock", PLACE, "ours", "stock", 2)
SMALLER = Bar("below 8 MiB", PLACE, "ours", None, 8 * MIB)
BY_NAME = {one.name: one for one in CONTESTANTS}


def build_rated(name: str, rate: int, peak_bytes: int | None = None, cell: Cell = PLACE) -> Entry:
    samples = {number: Sample(rate, 1, 0.1, 0.1) for number in range(LEAST_ROUNDS)}
    return Entry(BY_NAME[name], cell, peak_bytes=peak_bytes, samples=samples)


def spread(low: float, middle: float, high: float) -> list[float]:
    """Returns nine ratios with these quartiles."""
    return [low] * 4 + [middle] + [high] * 4


def test_benchmark_verdict_follows_the_median_unless_a_quartile_contradicts_it():
    for ratios, verdict in (
        (spread(0.85, 1, 9), "pass"),
        (spread(0.84, 1, 9), "undecided"),  # the median passes, but a quarter of the rounds is well below
        (spread(0.1, 0.99, 1.17), "**miss**"),
        (spread(0.1, 0.99, 1.18), "undecided"),  # the median misses, but a quarter of the rounds is well above
        (spread(0.84, 1.5, 2), "undecided"),
        ([2] * (LEAST_ROUNDS - 1), "undecided"),
        ([0.5] * (LEAST_ROUNDS - 1), "undecided"),
        ([], "not measured"),
    ):
        assert find_verdict(ratios, 1) == verdict, ratios


def test_performance_target_is_judged_by_the_ratio_of_two_programs():
    ((_, cell, measured, told),) = judge([FASTER], [[build_rated("ours", 200), build_rated("stock", 100)]]).rows
    assert (cell, measured, told) == ("1 MiB, 1 client, tcp", "2.00 (2.00-2.00)", "pass")
    ((*_, told),) = judge([FASTER], [[build_rated("ours", 200), Entry(BY_NAME["stock"], PLACE, "failed")]]).rows
    assert told == "not measured"


def test_memory_target_passes_only_below_its_limit():
    for peak_bytes, verdict in ((8 * MIB - 1, "pass"), (8 * MIB, "**miss**"), (None, "not measured")):
        ((*_, told),) = judge([SMALLER], [[build_rated("ours", 100, peak_bytes)]]).rows
        assert told == verdict, peak_bytes


def test_performance_target_ignores_other_sizes_and_client_counts():
    for cell in (Cell(2 * MIB), Cell(MIB, 16), Cell(MIB, processes=4), Cell(MIB, streams=2), Cell(MIB, group=SERVED)):
        assert judge([SMALLER], [[build_rated("ours", 100, MIB, cell)]]).rows == [], cell


def test_benchmark_suite_measures_the_programs_of_every_performance_target():
    measured = {(one, cell) for cell, names in CELLS.items() for one in names}
    assert {(one, bar.cell) for bar in BARS for one in (bar.over, bar.under or bar.over)} <= measured


def summarize(*entries: Entry) -> dict[str, Table]:
    return {table.title: table for table in build_useful_tables([[one] for one in entries])}


def test_benchmark_summary_has_seven_rows_or_fewer_and_only_measured_calls():
    entries = [build_rated(name, 100, MIB, cell) for cell, names in CELLS.items() for name in names if name in BY_NAME]
    assert len(summarize(*entries)[SUMMARY].rows) == 7
    assert summarize(build_rated("ours", 100))[SUMMARY].rows == [("1 MiB", "100 ms", "-", "-", "-")]


def test_benchmark_summary_has_the_server_memory_of_each_peer():
    place = Cell(256 * MIB)
    entries = [build_rated(name, 1, size, place) for name, size in (("ours", 8 * MIB), ("arrow", 521 * MIB))]
    assert summarize(*entries)[SUMMARY].rows[1:] == [("memory of the server for 256 MiB", "8 MiB", "-", "-", "521 MiB")]


def test_faster_peers_are_listed_also_for_calls_outside_the_summary():
    place = Cell(16 * MIB)
    tables = summarize(*(build_rated(name, rate, None, place) for name, rate in (("ours", 100), ("arrow", 200))))
    assert tables[SUMMARY].rows == []
    assert tables[SLOWER].rows == [("16 MiB", "Arrow Flight", "0.500 (0.500-0.500)")]


def test_benchmark_cells_have_distinct_titles():
    cells = [*CELLS, Cell(KIB, 64), Cell(KIB, 64, group=SERVED)]
    assert len({*map(str, cells)}) == len(cells)


REPORT = """# A report

## The machine

- a machine, 2 cores
- a system

## Runs

| begin, UTC | commit | rounds |
| --- | ---: | ---: |
| 2026-11-22 | abc1234 | 10 |

## What a user gets

| times as fast as | stock grpcio | Arrow Flight |
| --- | ---: | ---: |
| 1 KiB | 3.00 (2.90-3.10) | - |

## Slower than a peer

| call | peer | times as fast |
| --- | ---: | ---: |
| 1 MiB | C++ server | 0.700 (0.600-0.800) |
| 1 MiB | Arrow Flight | 0.900 (0.800-1.00) |
| 16 MiB | Arrow Flight | 0.800 (0.700-0.900) |
"""


def test_benchmark_summary_omits_figures_of_runs_with_too_few_rounds():
    summary = build_summary(REPORT)
    assert "| 1 KiB | 3.00 (2.90-3.10) | - |" in summary
    assert "10 rounds; a machine, 2 cores; default settings; commit abc1234." in summary
    summary = build_summary(REPORT.replace("| 10 |", "| 7 |"))
    assert "| 1 KiB | - | - |" in summary
    assert "too few rounds" in summary


def test_benchmark_summary_ends_with_a_sentence_about_faster_peers():
    *_, last = build_summary(REPORT).splitlines()
    assert last == "A peer is faster for 1 MiB (C++ server, Arrow Flight), 16 MiB (Arrow Flight)."
    *_, last = build_summary(REPORT.partition("| 1 MiB")[0]).splitlines()
    assert last == "No peer is faster."


def test_readme_has_the_figures_of_the_benchmark_results():
    assert read_summary(README) == build_summary((ROOT / "docs/benchmarks/results.md").read_text())


def test_write_summary_leaves_a_page_without_markers_unchanged(tmp_path: Path):
    page = tmp_path / "README.md"
    page.write_text("words\n")
    with pytest.raises(ValueError, match="no <!-- measured -->"):
        write_summary(page, REPORT)
    assert page.read_text() == "words\n"
