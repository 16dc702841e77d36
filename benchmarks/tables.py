"""Markdown tables of a report. A run writes them, and the summary for the README reads them."""

from dataclasses import dataclass, field

BARS, RUNS, SUMMARY = "Bars", "Runs", "What a user gets"


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
