"""The matrix of clients and rows, as it ran."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from grpc import StatusCode

from foreign_calls import Failure, ForeignCall
from verification.clients.answers import find_difference
from verification.clients.programs import Program
from verification.clients.rows import TABLES

_CODES = {code.value[0]: code for code in StatusCode}


@dataclass(frozen=True)
class Cell:
    """What a client made of a row.

    Attributes:
        calls: how many there were.
        differences: what was not as it must be.
        why: why this client must see something else than the others, where it must.
    """

    calls: int
    differences: tuple[str, ...]
    why: str = ""

    def __str__(self) -> str:
        """Returns how many calls did what they must, and of how many where it is not all of them."""
        if not self.calls:
            return "none"
        good = self.calls - len(self.differences)
        count = str(good) if good == self.calls else f"{good} of {self.calls}"
        return f"({count})" if self.why else count


def run_table(program: Program, table: str, address: str, row_calls: int | None = None) -> dict[str, Cell]:
    """Has a client make the calls of a table, and returns what it made of each row.

    Args:
        program: the client.
        table: the protocol.
        address: of the server.
        row_calls: make so many calls of each row, from its first on to its last; None: all.
    """
    rows = {name: thin(list_calls(program, name, make()), row_calls) for name, make in TABLES[table].items()}
    answers = iter(program.ask(address, [call for calls in rows.values() for call in calls]))
    cells = {}
    for name, calls in rows.items():
        differences = [find_difference(call, next(answers)) for call in calls]
        why = str(program.exceptions.get(name, {}).get("why", ""))
        cells[name] = Cell(len(calls), tuple(filter(None, differences)), why)
    return cells


def list_calls(program: Program, row: str, calls: list[ForeignCall]) -> list[ForeignCall]:
    """Returns the calls of a row with what must come of them with this client."""
    exception = program.exceptions.get(row)
    if exception is None:
        return calls
    if "code" not in exception:
        return []
    failure = Failure(_CODES[int(str(exception["code"]))], str(exception.get("reason", "")))
    return [replace(call, failure=failure, seconds=min(call.seconds, 5.0)) for call in calls]


def thin(calls: list[ForeignCall], count: int | None) -> list[ForeignCall]:
    """Returns so many of the calls, at even distances, or all where there are no more."""
    if count is None or len(calls) <= count:
        return calls
    return [calls[index * (len(calls) - 1) // (count - 1)] for index in range(count)]


def write_matrix(table: str, columns: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """Yields the lines of a table in Markdown: a row a row, a column a client."""
    yield f"| {table} | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in TABLES[table]:
        yield f"| {row} | {' | '.join(str(cells[row]) for cells in columns.values())} |"
