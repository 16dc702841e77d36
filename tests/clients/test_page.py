"""The pages on clients show the shortest call of each client, and the call prints the output in its comments."""

import re
from collections.abc import Callable

import pytest

from documents import ROOT
from server_processes import ServerProcess
from verification.clients.programs import Program, find_programs

PAGES = "".join(page.read_text() for page in (ROOT / "docs/how-to").glob("*.md"))
PRINTED = re.compile(r"^.*(?:\b(?:log|print|[Pp]rintln|cout)\b|InferShape).* (?://|#) (.*)$", re.MULTILINE)
SHOWN = [program for program in find_programs() if program.page]

pytestmark = pytest.mark.timeout(600)  # the first test of a client installs its packages


@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.name)
def test_documented_client_programs_print_the_output_in_their_comments(
    find_program: Callable[[str], Program], find_server: Callable[[Program], ServerProcess], program: Program
):
    text = (ROOT / program.page).read_text()
    assert f"\n{text}```\n" in PAGES
    printed = find_program(program.name).run_page(program.find_address(find_server(program)))
    assert printed.split() == " ".join(PRINTED.findall(text)).split()
