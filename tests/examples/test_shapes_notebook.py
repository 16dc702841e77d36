"""The notebook of the examples: it runs from the first cell to the last, and is kept without what it printed."""

import json
import subprocess
import sys
from typing import Any

import pytest

from documents import ROOT
from server_processes import ServerProcess

NOTEBOOK = ROOT / "examples/shapes.ipynb"
ADDRESS = "localhost:50051"
# In a process of its own: Jupyter's libraries warn of themselves, and a warning is an error here.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.reads(sys.stdin.read(), as_version=4)
NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
sys.stdout.write(nbformat.writes(notebook))
"""


@pytest.fixture(scope="module")
def executed(server: ServerProcess) -> list[dict[str, Any]]:
    """The cells of code, with what they show."""
    text = NOTEBOOK.read_text().replace(ADDRESS, server.address)
    done = subprocess.run([sys.executable, "-c", EXECUTE], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return read_cells(done.stdout)


def read_cells(text: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def list_printed(cells: list[dict[str, Any]]) -> str:
    return "".join("".join(output.get("text", ())) for cell in cells for output in cell["outputs"])


def test_drawings_are_shown_as_pictures(executed: list[dict[str, Any]]):
    shown = [kind for cell in executed for output in cell["outputs"] for kind in output.get("data", {})]

    assert shown.count("image/svg+xml") == 3


def test_arrays_come_back_as_they_read(executed: list[dict[str, Any]]):
    results = [output["data"].get("text/plain") for cell in executed for output in cell["outputs"] if "data" in output]

    assert results[-1] == ["True"]


def test_shapes_and_refusals_are_printed(executed: list[dict[str, Any]]):
    printed = list_printed(executed)

    assert "[N, S, 12, 64]\n[N*S, 768]\n[N*S/2, 1536]\n" in printed
    assert "NOT_DIVISIBLE\nshape[1]\n" in printed


def test_the_notebook_is_kept_without_outputs():
    cells = read_cells(NOTEBOOK.read_text())

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
