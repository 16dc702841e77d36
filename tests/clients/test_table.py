"""Every client that can be installed gets what the rules give, in every row of the table.

A client that is a process for each call makes some calls of each row here, and all in `scripts/clients`.
"""

from collections.abc import Callable

import pytest

from server_processes import ServerProcess
from verification.clients.matrices import Cell, run_table
from verification.clients.programs import Program, find_programs
from verification.clients.rows import TABLES

pytestmark = pytest.mark.timeout(600)  # whoever comes first waits for the packages

CLIENTS = [(program.name, table) for program in find_programs() for table in program.tables]


@pytest.fixture(scope="session", params=CLIENTS, ids="-".join)
def cells(
    request: pytest.FixtureRequest,
    find_program: Callable[[str], Program],
    find_server: Callable[[Program], ServerProcess],
) -> dict[str, Cell]:
    """What a client made of each row of a table."""
    name, table = request.param
    program = find_program(name)
    return run_table(program, table, find_server(program).address, program.row_calls)


def test_every_call_does_what_the_rules_say(cells: dict[str, Cell]):
    assert {row: cell.differences for row, cell in cells.items() if cell.differences} == {}


@pytest.mark.parametrize("program", find_programs(), ids=lambda program: program.name)
def test_a_program_speaks_protocols_and_names_rows_that_there_are(program: Program):
    rows = {row for table in program.tables for row in TABLES[table]}
    assert (set(program.tables) <= TABLES.keys(), program.exceptions.keys() - rows) == (True, set())
