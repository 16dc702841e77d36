"""The matrix of clients and rows with the results of a run."""

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
    """The results of a client for a row.

    Attributes:
        calls: the number of calls.
        differences: the wrong results.
        why: why this client has a different expected result, if it has one.
    """

    calls: int
    differences: tuple[str, ...]
    why: str = ""

    def __str__(self) -> str:
        """Returns the number of right results, with the number of calls if they differ."""
        if not self.calls:
            return "none"
        good = self.calls - len(self.differences)
        count = str(good) if good == self.calls else f"{good} of {self.calls}"
        return f"({count})" if self.why else count


def run_table(program: Program, table: str, address: str) -> dict[str, Cell]:
    """Makes the calls of a table with a client, and returns the results of each row.

    Args:
        program: the client.
        table: the protocol.
        address: the address of the server.
    """
    rows = {name: list_calls(program, name, make()) for name, make in TABLES[table].items()}
    answers = iter(program.ask(address, [call for calls in rows.values() for call in calls]))
    cells = {}
    for name, calls in rows.items():
        differences = [find_difference(call, next(answers)) for call in calls]
        why = str(program.exceptions.get(name, {}).get("why", ""))
        cells[name] = Cell(len(calls), tuple(filter(None, differences)), why)
    return cells


def list_calls(program: Program, row: str, calls: list[ForeignCall]) -> list[ForeignCall]:
    """Returns the calls of a row with the results that this client must get."""
    exception = program.exceptions.get(row)
    if exception is None:
        return calls
    if "code" not in exception:
        return []
    failure = Failure(_CODES[int(str(exception["code"]))], str(exception.get("reason", "")))
    return [replace(call, failure=failure, seconds=min(call.seconds, 5.0)) for call in calls]


def write_matrix(table: str, columns: Mapping[str, Mapping[str, Cell]]) -> Iterator[str]:
    """Yields the lines of a Markdown table with a line for each row and a column for each client."""
    yield f"| {table} | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for row in TABLES[table]:
        yield f"| {row} | {' | '.join(str(cells[row]) for cells in columns.values())} |"
