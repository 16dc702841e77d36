"""Triton's perf_analyzer measures a server, with the commands of the page and with parameters."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from documents import ROOT, read_blocks
from server_processes import ServerProcess
from verification.clients.programs import Program

pytestmark = pytest.mark.timeout(600)  # the first test installs the program

ADDRESS = "localhost:50051"
INPUTS = "--input-data inputs.json --shape data:2,3 --shape shape:2"
QUICK = "--measurement-interval 200 --stability-percentage 1000"  # rates that differ by a factor of ten are stable
DATA_ONLY = {"data": [{"data": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}]}


@pytest.fixture
def measure(
    find_program: Callable[[str], Program], server: ServerProcess, tmp_path: Path
) -> Callable[[str], re.Match[str] | None]:
    """Returns a function that runs the commands of the page with these inputs, and finds the counts of the server."""
    (tmp_path / "perf").symlink_to(find_program("perf_analyzer").environment / ".venv")
    page = ROOT / "docs/how-to/inference-protocol.md"
    (commands,) = (block.text for block in read_blocks(page) if "perf/bin/perf_analyzer" in block.text)
    assert ADDRESS in commands
    assert INPUTS in commands

    def run(inputs: str) -> re.Match[str] | None:
        script = commands.replace(ADDRESS, server.address).replace(INPUTS, f"{inputs} {QUICK}")
        done = subprocess.run(["sh", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.search(r"^  Server: \n    Inference count: [1-9]", done.stdout, re.MULTILINE)

    return run


def test_perf_analyzer_reports_counts_of_the_server(measure: Callable[[str], re.Match[str] | None]):
    assert measure(INPUTS)


def test_perf_analyzer_leaves_out_optional_inputs_without_data(
    measure: Callable[[str], re.Match[str] | None], tmp_path: Path
):
    (tmp_path / "data.json").write_text(json.dumps(DATA_ONLY))
    parameters = "--request-parameter 'shape:[3,-1]:string' --request-parameter special_zero:false:bool"
    assert measure(f"--input-data data.json --shape data:2,3 {parameters}")
