"""The clients of other languages and libraries, each installed when the first test asks for it."""

from collections.abc import Callable
from functools import cache

import pytest

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
