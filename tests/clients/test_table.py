"""Clients of the most used libraries get the results of the rules, in every row of the table.

`scripts/verify clients` runs more clients.
"""

from collections.abc import Callable

import pytest

from server_processes import ServerProcess
from verification.client_rows import TABLES
from verification.clients import Program, find_programs, run_table

pytestmark = pytest.mark.timeout(600)  # the first test of a client installs its packages


@pytest.mark.parametrize(
    ("name", "table"),
    [(program.name, table) for program in find_programs() if program.is_tested for table in program.tables],
)
def test_clients_in_other_languages_get_the_expected_results(
    find_program: Callable[[str], Program], find_server: Callable[[Program], ServerProcess], name: str, table: str
):
    program = find_program(name)
    cells = run_table(program, table, program.find_address(find_server(program)))
    assert {row: cell.differences for row, cell in cells.items() if cell.differences} == {}


def test_client_program_exceptions_refer_to_existing_table_rows():
    for program in find_programs():
        rows = {row for table in program.tables for row in TABLES[table]}
        assert program.exceptions.keys() <= rows, program.name
