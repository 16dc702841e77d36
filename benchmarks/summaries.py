"""The table in the README, which has only figures of the report.

1. A summary depends only on the report's text, so a test can check that both agree.
2. It has no figures of a run that is too short for a verdict.
3. It is between two markers. Writing it keeps the rest of the page.
"""

import re
from pathlib import Path

from benchmarks.cells import KIB, MIB, Cell
from benchmarks.suites.bars import LEAST_ROUNDS
from benchmarks.tables import RUNS, Table, read_tables

_BEGIN, _END = "<!-- measured -->", "<!-- /measured -->"
_CELLS = {
    "1 KiB": Cell(KIB),
    "1 KiB, 16 threads": Cell(KIB, 16),
    "16 MiB": Cell(16 * MIB),
    "16 MiB, 16 threads": Cell(16 * MIB, 16),
    "256 MiB": Cell(256 * MIB),
}
_ROWS = {
    "stock grpcio": "stock grpcio",
    "C++ gRPC server behind a stock Python channel": "C++ gRPC sync, with the experiment",
    "C++ gRPC stream on both sides": "C++ gRPC stream, both sides, slices",
    "Arrow Flight": "Arrow Flight DoExchange",
    "raw socket copy": "raw socket copy",
}
"""The name of a contestant in the summary, and its label in the report."""

_ROUNDS, _RATIO = 2, 2
"""The columns of a report: the rounds of a run, and the ratio of the first row of a cell to each row."""


def build_summary(report: str) -> str:
    """Returns the table for a report's text. Each of its cells is a cell of the report."""
    tables = {table.title: table for table in read_tables(report)}
    is_long = all(int(run[_ROUNDS]) >= LEAST_ROUNDS for run in tables[RUNS].rows)
    ratios = {str(cell): _read_ratios(tables.get(str(cell))) if is_long else {} for cell in _CELLS.values()}
    head = ("times as fast as", *_CELLS)
    rows = [(name, *(ratios[str(cell)].get(label, "-") for cell in _CELLS.values())) for name, label in _ROWS.items()]
    _, commit, rounds, *_ = tables[RUNS].rows[-1]
    note = f"Medians and quartiles of {rounds} rounds" if is_long else "Not measured: too few rounds"
    lines = [head, ("---", *["---:"] * len(_CELLS)), *rows]
    note += f"; {find_machine(report)}; commit {commit}. `python -m benchmarks --useful` measures it again."
    return "\n".join([f"{note}\n", *(f"| {' | '.join(line)} |" for line in lines)])


def find_machine(report: str) -> str:
    """Returns the first line of a report's description of the machine."""
    machine: str = re.findall(r"^- (.*)$", report, re.MULTILINE)[0]
    return machine


def read_summary(page: Path) -> str:
    """Returns the text between the markers of a page."""
    return page.read_text().partition(_BEGIN)[2].partition(_END)[0].strip("\n")


def write_summary(page: Path, report: str) -> None:
    """Replaces the text between the markers of a page.

    Raises:
        ValueError: the page has no markers.
    """
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        message = f"{page}: no {_BEGIN} and {_END}"
        raise ValueError(message)
    page.write_text(f"{before}{_BEGIN}\n{build_summary(report)}\n{_END}{after}")


def _read_ratios(table: Table | None) -> dict[str, str]:
    return {row[0]: row[_RATIO] for row in table.rows} if table else {}
