"""The program that executes one reshape with one library, which is a real library or fails like a broken one."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tensor_reshape.cli.compare import RECORDED, ask_library, list_queries
from tensor_reshape.cli.library_reshapes import LIBRARIES, LibraryQuery, _build_model, answer

ROWS = json.loads(RECORDED.read_text())["queries"]
QUERY = LibraryQuery("torch", (2, 3), (3, 2), special_zero=False)


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a module that a child process imports in place of torch."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "torch.py"


@pytest.mark.timeout(900)  # each of the answers is a process, which takes seconds to import a large library
@pytest.mark.parametrize("name", LIBRARIES)
def test_installed_library_gives_the_recorded_answers(name: str):
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: scripts/verify comparisons installs it")
    queries = [query for row in ROWS for query in list_queries(row["data"], row["shape"]) if query.name == name]
    answers = [{**ask_library(query), "version": None} for query in queries]
    recorded = [{**one, "version": None} for row in ROWS for one in row["answers"] if one["name"] == name]
    assert answers == recorded


def test_library_that_is_not_installed_has_no_answer():
    assert answer(LibraryQuery("no_such_library", (2,), (2,), special_zero=False)) is None


def test_library_that_cannot_be_imported_is_unusable(torch: Path):
    torch.write_text("raise ImportError('libgomp.so.1 is missing')")
    assert ask_library(QUERY)["unusable"] == "cannot be imported: ImportError"


@pytest.mark.parametrize(("allowzero", "shape"), [(False, (0, 3)), (True, (5, 0))])
def test_onnx_model_of_the_program_reshapes_with_the_attribute(allowzero: bool, shape: tuple[int, int]):
    model = onnx.load_model_from_string(_build_model(allowzero=allowzero))
    feeds = {"data": np.zeros((0, 3), np.float32), "shape": np.array(shape)}
    outputs: Any = ReferenceEvaluator(model).run(None, feeds)
    assert [output.shape for output in outputs] == [shape]


def test_library_process_gets_no_environment_variables_except_those_of_python(
    torch: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TENSOR_RESHAPE_SECRET", "a token")
    torch.write_text("import os; __version__ = ' '.join(os.environ)")
    given = set(ask_library(QUERY)["version"].split())
    assert given <= {"CI", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LC_CTYPE"}  # Python sets LC_CTYPE
