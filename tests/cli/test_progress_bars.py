"""How far a long transfer is."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import run_command
from server_processes import ServerProcess
from tensor_reshape.cli.progress_bars import LEAST_BYTES, draw_progress
from terminals import run_on_terminal, strip_styles

PROGRAM = Path(sys.executable).parent / "tensor-reshape"


def test_a_pipe_has_no_bar():
    with draw_progress(10 * LEAST_BYTES, wanted=True) as advance:
        assert advance is None


@pytest.fixture
def large(tmp_path: Path) -> Path:
    np.save(tmp_path / "large.npy", np.zeros(2 * LEAST_BYTES, np.uint8))
    return tmp_path / "large.npy"


def reshape(server: ServerProcess, file: Path, *options: str) -> tuple[int, str]:
    output = file.with_name("output.npy")
    asked = ("--server", server.address, "--shape=2,-1", "--no-special-zero", "-o", output)
    return run_on_terminal(PROGRAM, "reshape", file, *asked, *options, env={"TERM": "xterm"})


def test_a_long_transfer_has_its_rate_and_the_time_that_is_left(server: ServerProcess, large: Path):
    code, text = reshape(server, large)
    assert (code, "/33.6 MB" in strip_styles(text) or "/32.0 MiB" in strip_styles(text)) == (0, True)
    assert "/s" in text


def test_a_run_of_questions_has_a_bar_on_a_terminal_alone():
    asked = ("conformance", "--rule", "copies", "--command", "sh -c 'while read -r line; do echo {}; done'")
    _, drawn = run_on_terminal(PROGRAM, *asked, env={"TERM": "xterm"})
    assert re.search(r"\d+/\d+ \S*0:00:0", strip_styles(drawn))
    assert "━" not in run_command(*asked).text


def test_a_bar_that_is_not_wanted_is_not_drawn(server: ServerProcess, large: Path):
    assert reshape(server, large, "--no-progress") == (0, "")


def test_a_short_transfer_has_none(server: ServerProcess, tmp_path: Path):
    np.save(tmp_path / "small.npy", np.zeros(6, np.uint8))
    assert reshape(server, tmp_path / "small.npy") == (0, "")
