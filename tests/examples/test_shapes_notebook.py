"""The notebook of the examples runs from the first cell to the last, and is stored without output."""

import json
import subprocess
import sys
from typing import Any

from documents import ROOT
from server_processes import ServerProcess

NOTEBOOK = ROOT / "examples/shapes.ipynb"
ADDRESS = "localhost:50051"
# In a separate process, because Jupyter's libraries cause warnings, which are errors in the tests.
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient

notebook = nbformat.reads(sys.stdin.read(), as_version=4)
NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
sys.stdout.write(nbformat.writes(notebook))
"""


def read_cells(text: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def test_shapes_notebook_shows_drawings_arrays_shapes_and_errors(server: ServerProcess):
    text = NOTEBOOK.read_text().replace(ADDRESS, server.address)
    done = subprocess.run([sys.executable, "-c", EXECUTE], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    outputs = [output for cell in read_cells(done.stdout) for output in cell["outputs"]]
    printed = "".join("".join(output.get("text", ())) for output in outputs)
    assert "[N, S, 12, 64]\n[N*S, 768]\n[N*S/2, 1536]\n" in printed
    assert "NOT_DIVISIBLE\nshape[1]\n" in printed
    data = [output["data"] for output in outputs if "data" in output]
    assert [kind for one in data for kind in one].count("image/svg+xml") == 3
    assert data[-1].get("text/plain") == ["True"]  # the result equals the sent array


def test_shapes_notebook_is_stored_without_outputs():
    cells = read_cells(NOTEBOOK.read_text())

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
