"""The clients of other languages and libraries. Each is installed when a test first needs it."""

from collections.abc import Callable
from functools import cache

import pytest

from server_processes import ServerProcess
from verification.clients import LackingError, Program, find_programs


@pytest.fixture(scope="session")
def find_program() -> Callable[[str], Program]:
    """Returns an installed program. The test is skipped if the machine lacks something that the program needs."""

    @cache
    def find(name: str) -> Program:
        program = next(program for program in find_programs() if program.name == name)
        try:
            program.install()
        except LackingError as error:
            pytest.skip(f"{name} cannot be installed: {error}")
        return program

    return find


@pytest.fixture(scope="session")
def find_server(start_once: Callable[..., ServerProcess], server: ServerProcess) -> Callable[[Program], ServerProcess]:
    """Returns the server for a program: a shared one, unless the program needs a server with other flags."""
    return lambda program: start_once(*program.server) if program.server else server
