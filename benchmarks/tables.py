"""Tables: what a run leaves, in Markdown, from which a later run reads what it does not measure again."""

from dataclasses import dataclass, field

from benchmarks.cells import TCP, Cell, parse_cell

BARS, RUNS = "Bars", "Runs"
_MERGED = {BARS: 1, RUNS: None}
"""Tables to which a later run adds, by the column of the cell that a row is about: it replaces that of its own."""


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
        # No text has a "|": a peer's words come through `Entry.failure`.
        head, *rows = [tuple(line[2:-2].split(" | ")) for line in lines if line.startswith("| ")] or [()]
        if head:
            tables.append(Table(title, head, rows[1:]))
    return tables


def merge_tables(earlier: list[Table], tables: list[Table]) -> list[Table]:
    """Returns the tables of two runs: of a cell that both measured the later one's, as a ratio is of one run."""
    titles = {table.title for table in tables}
    kept = {table.title: table for table in earlier}
    for table in tables:
        if table.title in _MERGED and table.title in kept:
            column = _MERGED[table.title]
            rows = kept[table.title].rows
            table.rows[:0] = [row for row in rows if column is None or row[column] not in titles]
    merged = [*tables, *(table for table in earlier if table.title not in titles)]
    return sorted(merged, key=lambda table: _find_place(parse_cell(table.title)))


def _find_place(cell: Cell | None) -> tuple[bool, ...] | tuple[bool, bool, int, int, int]:
    """Returns by what tables are sorted: those of no cell as they are, then TCP, few clients, small tensors first."""
    return (True, cell.transport != TCP, cell.clients, cell.processes, cell.size) if cell else (False,)
