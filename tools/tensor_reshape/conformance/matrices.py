"""The matrix of a report: a row for each rule, and columns of what was counted.

Of one implementation the columns are verdicts. Of several they are the implementations: each cell says how many of the
questions that it was offered agree, and the worst that happened.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.conformance.cases import RULES
from tensor_reshape.conformance.results import Results
from tensor_reshape.conformance.verdicts import Verdict

_NOTHING = "."
_TOTAL = "all"


class Matrix(NamedTuple):
    """A table of text.

    Attributes:
        head: the names of the columns.
        rows: as many cells each.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def write(self) -> str:
        """Returns the table as plain text: the first column to the left, the others to the right."""
        table = [self.head, *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(self.head))]
        return "\n".join(_write_row(row, widths) for row in table)


def _write_row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  ".join(cells).rstrip()


def build_matrix(results: Sequence[Results]) -> Matrix:
    """Returns the matrix of one implementation, or of several."""
    return _build_verdicts(results[0]) if len(results) == 1 else _build_implementations(results)


def _build_verdicts(results: Results) -> Matrix:
    verdicts = [verdict for verdict in reversed(Verdict) if verdict is Verdict.AGREES or results.count(verdict)]
    rows = [
        [name, *(str(results.count(verdict, rule) or _NOTHING) for verdict in verdicts)]
        for name, rule in [*((rule, rule) for rule in results.list_rules()), (_TOTAL, None)]
    ]
    return Matrix(["rule", *verdicts], rows)


def _build_implementations(results: Sequence[Results]) -> Matrix:
    rules = [rule for rule in RULES if any(rule in one.counts for one in results)]
    rows = [
        [name, *(write_cell(one, rule) for one in results)]
        for name, rule in [*((rule, rule) for rule in rules), (_TOTAL, None)]
    ]
    return Matrix(["rule", *(one.implementation for one in results)], rows)


def write_cell(results: Results, rule: str | None) -> str:
    """Returns what one implementation does about a rule, or about all: `12 of 14, wrong_shape`."""
    counts = {verdict: results.count(verdict, rule) for verdict in Verdict}
    offered = sum(counts.values()) - counts[Verdict.UNSUPPORTED]
    if not offered:
        return "not offered" if counts[Verdict.UNSUPPORTED] else _NOTHING
    good = counts[Verdict.AGREES] + counts[Verdict.TIGHTER]
    worst = find_worst(results, rule)
    return f"{good} of {offered}" + (f", {worst}" if worst.is_difference else "")


def find_worst(results: Results, rule: str | None) -> Verdict:
    """Returns the worst verdict of a rule, or of all; unsupported where nothing was offered."""
    offered = (verdict for verdict in Verdict if verdict is not Verdict.UNSUPPORTED)
    return next((verdict for verdict in offered if results.count(verdict, rule)), Verdict.UNSUPPORTED)
