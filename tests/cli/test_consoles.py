"""The choice between drawn and plain output, and the progress of long transfers."""

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

from command_line import PROGRAM, run_on_terminal, strip_styles
from server_processes import ServerProcess
from tensor_reshape.cli.consoles import LEAST_BYTES, find_console


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


def test_only_long_transfers_show_a_progress_bar(server: ServerProcess, tmp_path: Path):
    def reshape(name: str, *options: str) -> tuple[int, str]:
        asked = ("--server", server.address, "--shape=2,-1", "--no-special-zero", "-o", tmp_path / "output.npy")
        return run_on_terminal(PROGRAM, "reshape", tmp_path / name, *asked, *options, env={"TERM": "xterm"})

    np.save(tmp_path / "large.npy", np.zeros(2 * LEAST_BYTES, np.uint8))
    np.save(tmp_path / "small.npy", np.zeros(6, np.uint8))
    code, text = reshape("large.npy")
    assert (code, "/33.6 MB" in strip_styles(text) or "/32.0 MiB" in strip_styles(text)) == (0, True)
    assert "/s" in text
    assert reshape("large.npy", "--no-progress") == (0, "")
    assert reshape("small.npy") == (0, "")
