"""pyright knows the types of the public API, and finds the errors in a program that uses it wrongly.

scripts/check runs mypy in strict mode on the same program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tensor_reshape.client as sdk
from documents import ROOT

PROGRAM = (ROOT / "tests/support/typed_program.py").read_text()
IGNORE = "  # type: ignore"
SECONDS = 280


def run_pyright(folder: Path, *arguments: str) -> dict[str, Any]:
    """Runs pyright in a folder without a project, so that it uses only installed packages, as for a user."""
    # `--verifytypes` ignores `--pythonpath`, so the PATH selects the interpreter.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pyright", "--outputjson", *arguments]
    result = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    if not result.stdout.startswith("{"):  # npm downloads it when it runs for the first time
        pytest.skip(f"pyright does not run here: {result.stdout[-200:]} {result.stderr[-200:]}")
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_pyright_reports_no_new_errors(tmp_path: Path):
    right, wrong, lines = tmp_path / "right.py", tmp_path / "wrong.py", PROGRAM.splitlines()
    right.write_text(PROGRAM)
    wrong.write_text("\n".join(line.partition(IGNORE)[0] for line in lines))  # as many lines
    report = run_pyright(tmp_path, str(right), str(wrong))
    found = {(Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in report["generalDiagnostics"]}
    assert found == {("wrong.py", number) for number, line in enumerate(lines, 1) if IGNORE in line}


def test_pyright_knows_the_type_of_every_public_name(tmp_path: Path):
    report = run_pyright(tmp_path, "--verifytypes", sdk.__name__, "--ignoreexternal")
    symbols = {symbol["name"]: symbol for symbol in report["typeCompleteness"]["symbols"]}
    names = [f"{sdk.__name__}.{name}" for name in sdk.__all__]
    assert [name for name in names if not symbols[name]["isTypeKnown"] or symbols[name]["isTypeAmbiguous"]] == []
