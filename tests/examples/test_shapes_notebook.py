"""The notebook of the examples runs from the first cell to the last, and is stored without output."""

import json
import subprocess
import sys
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

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


@pytest.fixture(scope="module")
def outputs(server: ServerProcess) -> list[dict[str, Any]]:
    text = NOTEBOOK.read_text().replace(ADDRESS, server.address)
    done = subprocess.run([sys.executable, "-c", EXECUTE], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [output for cell in read_cells(done.stdout) for output in cell["outputs"]]


def list_values(outputs: list[dict[str, Any]], kind: str) -> list[str]:
    """Returns the values of cells that have a representation of this kind."""
    return ["".join(output["data"][kind]) for output in outputs if kind in output.get("data", ())]


def test_shapes_notebook_prints_shapes_and_errors(outputs: list[dict[str, Any]]):
    printed = "".join("".join(output.get("text", ())) for output in outputs)
    assert "[N, S, 12, 64]\n[N*S, 768]\n[N*S/2, 1536]\n" in printed
    assert "NOT_DIVISIBLE\nshape[1]\n" in printed


def test_shapes_notebook_draws_results_and_rejections(outputs: list[dict[str, Any]]):
    drawings = [fromstring(drawing) for drawing in list_values(outputs, "image/svg+xml")]
    assert [drawing.findtext("{http://www.w3.org/2000/svg}title") for drawing in drawings] == [
        "static_reshape of [2, 3, 4] to [0, -1] with special_zero: [2, 12]",
        "static_reshape of [2, 3, 4] to [5, -1]: rejected, NOT_DIVISIBLE",
        "static_reshape of [N, S, 768] to [0, 0, 12, 64] with special_zero: [N, S, 12, 64]",
        "static_reshape of [N, 3, 4] to [0, -1] with special_zero: [N, 12]",  # by the server
        "static_reshape of [2, 3, 4] to [5, -1]: rejected, NOT_DIVISIBLE",
    ]


def test_shapes_notebook_shows_text_beside_each_drawing(outputs: list[dict[str, Any]]):
    assert [text.partition("('")[0] for text in list_values(outputs, "text/plain")] == [
        "InferredShape([2, 12])",
        "tensor_reshape.rules.errors.InvalidRequestError",
        "InferredShape([N, S, 12, 64])",
        "True",  # the array from the server equals the sent array
        "InferredShape([N, 12])",
        "tensor_reshape.rules.errors.InvalidRequestError",
    ]


def test_shapes_notebook_is_stored_without_outputs():
    cells = read_cells(NOTEBOOK.read_text())

    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
