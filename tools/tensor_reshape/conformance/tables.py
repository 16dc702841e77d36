"""The table of a conformance report, which has a row for each rule.

If the report is about one implementation, the columns are verdicts. If the report is about several implementations,
each implementation has a column. Each cell then shows the share of supported cases that agree, and the worst verdict.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tensor_reshape.conformance.cases import RULES
from tensor_reshape.conformance.results import Results
from tensor_reshape.conformance.verdicts import Verdict

_NOTHING = "."
_TOTAL = "all"


class Table(NamedTuple):
    """A table of text.

    Attributes:
        header: the names of the columns.
        rows: the cells of each row.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def write(self) -> str:
        """Returns the table as plain text, with the first column aligned left and all other columns aligned right."""
        columns = list(zip(self.header, *self.rows, strict=True))
        widths = [max(map(len, column)) for column in columns]
        return "\n".join(_write_row(row, widths) for row in (self.header, *self.rows))


def _write_row(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  ".join(cells).rstrip()


def build_table(results: Sequence[Results]) -> Table:
    """Returns the table for the results of one or more implementations."""
    rules = [rule for rule in RULES if any(rule in one.counts for one in results)]
    rows: list[tuple[str, str | None]] = [*((rule, rule) for rule in rules), (_TOTAL, None)]
    if len(results) > 1:
        header = ["rule", *(one.implementation for one in results)]
        return Table(header, [[name, *(write_cell(one, rule) for one in results)] for name, rule in rows])
    (one,) = results
    verdicts = [verdict for verdict in reversed(Verdict) if verdict is Verdict.AGREES or one.count(verdict)]
    counts = [[name, *(str(one.count(verdict, rule) or _NOTHING) for verdict in verdicts)] for name, rule in rows]
    return Table(["rule", *verdicts], counts)


def write_cell(results: Results, rule: str | None) -> str:
    """Returns the text of a table cell, such as `12 of 14, wrong_shape`.

    The two numbers are the cases that agree and the supported cases. The verdict in a cell is the worst verdict. If
    `rule` is None, the cell is about all rules.
    """
    counts = {verdict: results.count(verdict, rule) for verdict in Verdict}
    supported = sum(counts.values()) - counts[Verdict.UNSUPPORTED]
    if not supported:
        return "not supported" if counts[Verdict.UNSUPPORTED] else _NOTHING
    good = counts[Verdict.AGREES] + counts[Verdict.TIGHTER]
    worst = find_worst(results, rule)
    return f"{good} of {supported}" + (f", {worst}" if worst.is_difference else "")


def find_worst(results: Results, rule: str | None) -> Verdict:
    """Returns the worst verdict for one rule, or for all rules. The result is UNSUPPORTED if no case is supported."""
    supported = (verdict for verdict in Verdict if verdict is not Verdict.UNSUPPORTED)
    return next((verdict for verdict in supported if results.count(verdict, rule)), Verdict.UNSUPPORTED)
