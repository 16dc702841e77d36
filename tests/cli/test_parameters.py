"""How shapes, data types and servers are written on the command line."""

from pathlib import Path

import numpy as np
import pytest

from command_line import Outcome, run_command
from server_processes import ServerProcess

SIX = np.arange(6, dtype=np.float32).reshape(2, 3)


NOBODY = ["--server", "127.0.0.1:1", "--timeout", "0.5"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.npy"
    np.save(path, SIX)
    return path


def run(server: ServerProcess, command: str, *arguments: str | Path, stdin: bytes = b"") -> Outcome:
    return run_command(command, "--server", server.address, *arguments, stdin=stdin)


def test_the_environment_names_the_server(server: ServerProcess):
    outcome = run_command("health", env={"TENSOR_RESHAPE_SERVER": server.address})
    assert (outcome.code, outcome.text) == (0, "SERVING")


def test_an_open_dim_is_no_target_of_an_execution(file: Path, server: ServerProcess):
    assert run(server, "static", file, "--shape", "?,-1", "--no-special-zero").code == 2


def test_special_zero_must_be_given(file: Path, server: ServerProcess):
    outcome = run(server, "static", file, "--shape", "6")
    assert (outcome.code, "special-zero" in outcome.errors[-1]) == (2, True)


@pytest.mark.parametrize("shape", ["a,b", "1.5", "1,,2", "@missing.npy"])
def test_a_shape_that_cannot_be_read_is_no_traceback(shape: str, file: Path):
    outcome = run_command("reshape", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {1, 2}, outcome.errors[-1].startswith("Error: ")) == (True, True)


@pytest.mark.parametrize("shape", [str(2**63), str(-(2**70)), "1" + "0" * 5000])
def test_a_dim_beyond_every_integer_type_is_no_traceback(shape: str, file: Path):
    outcome = run_command("static", file, "--shape", shape, "--no-special-zero", *NOBODY)
    assert (outcome.code in {2, 3}, outcome.errors[-1].startswith("Error: ")) == (True, True)
