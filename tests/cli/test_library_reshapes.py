"""The program that executes one reshape with one library, which is a real library or fails like a broken one."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tensor_reshape.cli.compare import RECORDED, ask_libraries, list_queries
from tensor_reshape.cli.library_reshapes import LIBRARIES, LibraryQuery, _build_model, answer

ROWS = json.loads(RECORDED.read_text())["queries"]
QUERY = LibraryQuery("torch", (2, 3), (3, 2), special_zero=False)


def ask(query: LibraryQuery = QUERY) -> dict[str, Any]:
    (found,) = ask_libraries([query])
    assert found is not None
    return found


def write_torch(file: Path, result: str, beginning: str = "") -> None:
    """Writes a torch whose reshape evaluates the result."""
    file.write_text(f"""
{beginning}
__version__ = "1"

class Tensor:
    shape = (3, 2)

    def reshape(self, shape):
        return {result}

def zeros(dims):
    return Tensor()
""")


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
    answers = [{**ask(query), "version": None} for query in queries]
    recorded = [{**one, "version": None} for row in ROWS for one in row["answers"] if one["name"] == name]
    assert answers == recorded


def test_library_that_is_not_installed_has_no_answer():
    assert answer(LibraryQuery("no_such_library", (2,), (2,), special_zero=False)) is None


def test_library_that_cannot_be_imported_is_unusable(torch: Path):
    torch.write_text("raise ImportError('libgomp.so.1 is missing')")
    assert ask()["unusable"] == "cannot be used: ImportError"


def test_library_that_lacks_a_module_is_unusable(torch: Path):
    (torch.parent / "openvino.py").write_text("__version__ = '1'")
    assert ask(QUERY._replace(name="openvino"))["unusable"] == "cannot be used: ModuleNotFoundError"


def test_rank_above_the_limit_of_numpy_is_a_rejection():
    assert ask(LibraryQuery("numpy", (1,) * 65, (1,), special_zero=False))["error"] == "ValueError"


@pytest.mark.parametrize(
    ("result", "key", "value"),
    [
        ("self", "dims", [3, 2]),
        ("int('x')", "error", "ValueError"),
        ("bytearray(1 << 62)", "failure", "out of memory"),  # a real MemoryError
    ],
)
def test_error_of_the_reshape_is_a_rejection_except_missing_memory(torch: Path, result: str, key: str, value: object):
    write_torch(torch, result)
    assert ask() == {"name": "torch", "specialZero": False, "version": "1", key: value}


@pytest.mark.parametrize(
    "beginning",
    [
        "import sys; sys.stdout.write('loading...')",
        "import os; os.write(1, b'a')",
        "import atexit; atexit.register(print, 1)",
    ],
)
def test_answer_is_read_from_a_library_that_prints(torch: Path, beginning: str):
    write_torch(torch, "self", beginning)
    assert ask()["dims"] == [3, 2]


@pytest.mark.parametrize(("allowzero", "shape"), [(False, (0, 3)), (True, (5, 0))])
def test_onnx_model_of_the_program_reshapes_with_the_attribute(allowzero: bool, shape: tuple[int, int]):
    model = onnx.load_model_from_string(_build_model(allowzero=allowzero))
    feeds = {"data": np.zeros((0, 3), np.float32), "shape": np.array(shape)}
    outputs: Any = ReferenceEvaluator(model).run(None, feeds)
    assert [output.shape for output in outputs] == [shape]


def test_library_process_gets_no_environment_variables_except_those_of_python(
    torch: Path, monkeypatch: pytest.MonkeyPatch
):
    passed = {"HOME", "LD_LIBRARY_PATH", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "SYSTEMROOT"}
    for name in {"TENSOR_RESHAPE_SECRET", *passed}:
        monkeypatch.setenv(name, str(torch.parent))
    write_torch(torch, "self", "import os")
    torch.write_text(torch.read_text() + "__version__ = ' '.join(os.environ)")
    given = {*ask()["version"].split()} - {"LC_CTYPE"}  # Python sets it
    assert given == {"CI", "PYTHONPATH", *passed}
