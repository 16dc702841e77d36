"""The progress of long transfers."""

from pathlib import Path

import numpy as np

from command_line import PROGRAM, run_on_terminal, strip_styles
from server_processes import ServerProcess
from tensor_reshape.cli.progress_bars import LEAST_BYTES, draw_progress


def test_pipe_shows_no_progress_bar():
    with draw_progress(10 * LEAST_BYTES, wanted=True) as advance:
        assert advance is None


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
