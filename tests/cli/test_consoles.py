"""Where output is drawn."""

import io
import os
from collections.abc import Iterator
from typing import TextIO

import pytest

from tensor_reshape.cli.consoles import escape_unprintable, find_console


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


def test_a_terminal_is_drawn_on(terminal: TextIO):
    assert find_console(terminal) is not None


def test_what_is_no_terminal_is_plain():
    assert find_console(io.StringIO()) is None


def test_force_color_has_a_pipe_drawn_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert find_console(io.StringIO()) is not None


def test_an_empty_force_color_forces_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FORCE_COLOR", "")
    assert find_console(io.StringIO()) is None


def test_a_dumb_terminal_is_plain(terminal: TextIO, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    assert find_console(terminal) is None


def test_no_color_takes_the_colours_of_a_terminal(terminal: TextIO, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console = find_console(terminal)
    assert console is not None
    assert console.no_color


def test_what_a_terminal_would_obey_is_escaped():
    assert escape_unprintable("é\x1b[31m\n批") == "é\\x1b[31m\\n批"
