"""Milestones: the history has a row for each release or large change, so that a regression shows.

`python -m benchmarks.milestones "What has changed"` adds the medians of the report that was written last.
"""

import argparse
from pathlib import Path

from benchmarks.environments import ROOT
from benchmarks.suites.bars import BARS as PROMISES
from benchmarks.suites.bars import HISTORY_COLUMNS
from benchmarks.summaries import find_machine
from benchmarks.tables import BARS, RUNS, read_tables

HISTORY = ROOT / "benchmarks" / "history.md"
REPORT = ROOT / "docs" / "benchmarks" / "results.md"
HEAD = ("begin, UTC", "commit", "what has changed", *HISTORY_COLUMNS, "machine")


def main() -> None:
    """Adds a row."""
    parser = argparse.ArgumentParser("python -m benchmarks.milestones", description=__doc__)
    parser.add_argument("what", help="what has changed, in some words")
    parser.add_argument("--report", type=Path, default=REPORT)
    parser.add_argument("--history", type=Path, default=HISTORY)
    options = parser.parse_args()
    row = build_row(options.report.read_text(), options.what)
    with options.history.open("a") as history:
        print(f"| {' | '.join(row)} |", file=history)


def build_row(report: str, what: str) -> tuple[str, ...]:
    """Returns the row of a report's text; a dash for a ratio that it does not have."""
    tables = {table.title: table for table in read_tables(report)}
    begin, commit, *_ = tables[RUNS].rows[-1]
    measured = {row[:2]: row[2] for row in tables[BARS].rows}
    medians = [measured.get((bar.text, bar.title), "-").partition(" ")[0] for bar in PROMISES if bar.column]
    return (begin, commit, what.replace("|", "/"), *medians, find_machine(report))


if __name__ == "__main__":
    main()
