"""Markdown tables of a report, and the table in the README, which has only figures of the report.

1. A summary depends only on the report's text, so a test can check that both agree.
2. It has no figures of a run that is too short for a verdict.
3. It is between two markers. Writing it keeps the rest of the page.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

LEAST_ROUNDS = 8
"""The rounds of a verdict. The quartiles of fewer rounds are too random."""

BARS, RUNS, SUMMARY = "Bars", "Runs", "What a user gets"
SLOWER, DETAILS = "Slower than a peer", "All settings"


@dataclass(slots=True)
class Table:
    """Cells of text under a title; all columns but the first are numbers."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        """Returns the section: its heading and the table."""
        lines = [self.head, ("---", *["---:"] * (len(self.head) - 1)), *self.rows]
        return "\n".join([f"## {self.title}\n", *(f"| {' | '.join(line)} |" for line in lines)])


def read_tables(text: str) -> list[Table]:
    """Returns the tables of a report."""
    tables: list[Table] = []
    for section in text.split("\n## ")[1:]:
        title, *lines = section.splitlines()
        # No text has a "|", because `Entry.failure` formats the messages of peers.
        head, *rows = [tuple(line[2:-2].split(" | ")) for line in lines if line.startswith("| ")] or [()]
        if head:
            tables.append(Table(title, head, rows[1:]))
    return tables


_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"
_ROUNDS = 2
"""The column of the rounds of a run."""


def build_summary(report: str) -> str:
    """Returns the table for a report's text. Each of its cells is a cell of the report."""
    tables = {table.title: table for table in read_tables(report)}
    is_long = all(int(run[_ROUNDS]) >= LEAST_ROUNDS for run in tables[RUNS].rows)
    _, commit, rounds, *_ = tables[RUNS].rows[-1]
    note = f"Medians and quartiles of {rounds} rounds" if is_long else "Not measured: too few rounds"
    machine = re.findall(r"^- (.*)$", report, re.MULTILINE)[0]
    note += f"; {machine}; default settings; commit {commit}. In the columns of the peers, 2 means that"
    note += " tensor-reshape is twice as fast. `python -m benchmarks --useful` measures it again."
    summary = tables[SUMMARY]
    rows = summary.rows if is_long else [(text, *"-" * len(cells)) for text, *cells in summary.rows]
    _, table = str(Table("", summary.head, rows)).split("\n\n", 1)
    return "\n\n".join([note, table, *([_name_slower_calls(tables[SLOWER])] if is_long else [])])


def _name_slower_calls(slower: Table) -> str:
    """Returns a sentence that names the calls for which a peer is faster."""
    peers: dict[str, list[str]] = {}
    for text, peer, _ in slower.rows:
        peers.setdefault(text, []).append(peer)
    calls = [f"{text} ({', '.join(names)})" for text, names in peers.items()]
    return f"A peer is faster for {', '.join(calls)}." if calls else "No peer is faster."


def read_summary(page: Path) -> str:
    """Returns the text between the markers of a page."""
    return page.read_text().partition(_BEGIN)[2].partition(_END)[0].strip("\n")


def write_summary(page: Path, report: str) -> None:
    """Replaces the text between the markers of a page."""
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        message = f"{page}: no {_BEGIN} and {_END}"
        raise ValueError(message)
    page.write_text(f"{before}{_BEGIN}\n{build_summary(report)}\n{_END}{after}")
