"""The client in Go that is there to be copied is a module that imports the stubs, and does what its page says."""

import subprocess
from collections.abc import Callable

from server_processes import ServerProcess
from verification.clients.programs import Program


def test_it_prints_what_its_page_says(find_program: Callable[[str], Program], server: ServerProcess):
    example = find_program("go").environment / "example/calls"
    printed = subprocess.run([example, server.address], capture_output=True, text=True, timeout=60, check=True).stdout
    assert printed.splitlines() == ["[3 2] [1 2 3 4 5 6]", "InvalidArgument NOT_DIVISIBLE"]
