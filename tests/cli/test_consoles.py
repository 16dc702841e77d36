"""The choice between drawn and plain output."""

import io
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from tensor_reshape.cli.consoles import find_console


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    outer, inner = os.openpty()
    with os.fdopen(inner, "w") as stream:
        yield stream
    os.close(outer)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_command_line_draws_tables_only_on_a_terminal(terminal: TextIO, monkeypatch: pytest.MonkeyPatch):
    assert find_console(terminal) is not None
    assert find_console(io.StringIO()) is None
    monkeypatch.setenv("TERM", "dumb")
    assert find_console(terminal) is None


def test_force_color_and_no_color_control_terminal_output(terminal: TextIO, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "")
    assert find_console(io.StringIO()) is None
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert find_console(io.StringIO()) is not None
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setenv("NO_COLOR", "1")
    console = find_console(terminal)
    assert console is not None
    assert console.no_color
