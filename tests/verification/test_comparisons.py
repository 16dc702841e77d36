"""The program that records the answers of libraries, with modules that fail like broken libraries."""

from pathlib import Path

import pytest

from tensor_reshape.cli import compare
from verification.comparisons import record


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise ImportError", "cannot be used: ImportError"),
        ("import os; os._exit(3)", "ended with exit code 3"),
        ("while True: pass", "no answer in 2 seconds"),
    ],
)
def test_library_without_an_answer_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
):
    (tmp_path / "torch.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(compare, "LIBRARIES", ("torch",))
    monkeypatch.setattr(compare, "_SECONDS", 2.0)
    with pytest.raises(SystemExit, match=f"^nothing was recorded: torch: {reason}$"):
        record({"data": [2, 3], "shape": [6]}, {})
