"""The pages on clients show the shortest call of each client, and the call prints the output in its comments."""

from collections.abc import Callable

import pytest

from server_processes import ServerProcess
from verification.clients import Program, find_programs

SHOWN = [program for program in find_programs() if program.page and program.is_tested]

pytestmark = pytest.mark.timeout(600)  # the first test of a client installs its packages


@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.name)
def test_documented_client_programs_print_the_output_in_their_comments(
    find_program: Callable[[str], Program], find_server: Callable[[Program], ServerProcess], program: Program
):
    address = program.find_address(find_server(program))
    assert find_program(program.name).find_page_difference(address) == ""
