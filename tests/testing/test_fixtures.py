"""The pytest plugin, in its own session."""

import subprocess
import sys
from pathlib import Path

from documents import ROOT, read_blocks

PAGE = ROOT / "docs/how-to/testing.md"
UNUSED = """
import sys

def test_pytest_plugin_imports_no_client_without_its_fixtures():
    assert [name for name in ("grpc", "numpy", "tensor_reshape.client", "asyncio") if name in sys.modules] == []
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    """Runs a pytest session with only this plugin."""
    others = [f"-pno:{name}" for name in ("asyncio", "hypothesispytest", "xdist", "timeout", "anyio", "cacheprovider")]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *others, *arguments, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=folder)
    return result.stdout + result.stderr


def test_tests_shown_on_the_testing_page_pass(tmp_path: Path):
    program = next(block.text for block in read_blocks(PAGE) if block.language == "python")
    (tmp_path / "test_program.py").write_text(program)
    assert f"{program.count('def test_')} passed" in run_pytest(tmp_path)


def test_unused_pytest_fixtures_are_listed_without_imports(tmp_path: Path):
    (tmp_path / "test_unused.py").write_text(UNUSED)
    assert "1 passed" in run_pytest(tmp_path)
    listed = run_pytest(tmp_path, "--fixtures")
    for name in ("reshape_server", "reshape_client"):
        assert "no docstring available" not in listed.partition(f"\n{name}")[2][:200]
