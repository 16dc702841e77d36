"""The clients of other languages and libraries, each installed when the first test asks for it."""

from collections.abc import Callable
from functools import cache

import pytest

from server_processes import ServerProcess
from verification.clients.programs import LackingError, Program, find_programs


@pytest.fixture(scope="session")
def find_program() -> Callable[[str], Program]:
    """Returns a program, ready to run; the test is skipped where the machine lacks what it needs."""

    @cache
    def find(name: str) -> Program:
        program = next(program for program in find_programs() if program.name == name)
        try:
            program.install()
        except LackingError as error:
            pytest.skip(f"{name} is not there: {error}")
        return program

    return find


@pytest.fixture(scope="session")
def find_server(start_once: Callable[..., ServerProcess], server: ServerProcess) -> Callable[[Program], ServerProcess]:
    """Returns the server that a program asks: one for all that need no flags of their own."""
    return lambda program: start_once(*program.server) if program.server else server
