import subprocess
import sys
from pathlib import Path

from benchmarks.contestants import CONTESTANTS, Cell
from benchmarks.rounds import Entry, Sample
from benchmarks.suites.ab import build_tables
from benchmarks.tables import read_tables

ROOT = Path(__file__).parents[2]


def build_entry(*seconds: float, status: str = "") -> Entry:
    samples = {number: Sample(1, one, one, one) for number, one in enumerate(seconds)}
    return Entry(CONTESTANTS[0], Cell(1024), status, samples=samples)


def test_comparison_verdict_requires_both_quartiles_on_one_side_of_1():
    for seconds, verdict in (
        ([1.1] * 7 + [0.9], "slower"),
        ([0.9] * 7 + [1.1], "faster"),
        ([0.9] * 4 + [1.1] * 4, "no difference"),
        ([1.1] * 7, "too few rounds"),
    ):
        (table,) = build_tables([[build_entry(*[1.0] * len(seconds)), build_entry(*seconds)]])
        assert table.rows[0][-1] == verdict, seconds


def test_version_comparison_table_shows_the_error_of_a_failed_version():
    (table,) = build_tables([[build_entry(1.0), build_entry(status="failed: AttributeError")]])
    assert table.rows[0][2:5] == ("1,000,000", "failed: AttributeError", "-")


def test_version_comparison_command_reports_both_versions():
    works = ("--works", "1 KiB, 1 client", "--rounds", "2", "--seconds", "0.01")
    command = [sys.executable, "-m", "benchmarks", "ab", "--against", sys.executable, *works]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    runs, table = read_tables(done.stdout)

    assert ", base " in runs.rows[0][1]  # both commits
    assert [row[0] for row in table.rows] == ["unary, stock channel", "unary, SDK", "unary, SDK, with the experiment"]
    assert all(text[:1].isdigit() for row in table.rows for text in row[2:5])
