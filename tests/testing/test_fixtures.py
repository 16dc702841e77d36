"""The plugin of pytest, in sessions of its own."""

import subprocess
import sys
from pathlib import Path

from documents import ROOT, read_blocks

SECONDS = 120
PAGE = ROOT / "docs/how-to/testing.md"
UNUSED = """
import sys

def test_nothing_is_imported_for_those_who_do_not_use_it():
    assert [name for name in ("grpc", "numpy", "tensor_reshape.client", "asyncio") if name in sys.modules] == []
"""


def run_pytest(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a session of pytest with this plugin and no other."""
    (folder / "test_program.py").write_text(program)
    others = [f"-pno:{name}" for name in ("asyncio", "hypothesispytest", "xdist", "timeout", "anyio", "cacheprovider")]
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *others, *arguments, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=folder)


def test_the_program_of_the_page_passes_without_a_warning(tmp_path: Path):
    program = next(block.text for block in read_blocks(PAGE) if block.language == "python")
    result = run_pytest(tmp_path, program)
    assert f"{program.count('def test_')} passed" in result.stdout, result.stdout + result.stderr


def test_each_fixture_says_what_it_is(tmp_path: Path):
    listed = run_pytest(tmp_path, UNUSED, "--fixtures").stdout
    for name in ("reshape_server", "reshape_client", "fake_reshape_client"):
        assert "no docstring available" not in listed.partition(f"\n{name}")[2][:200]


def test_whoever_does_not_use_them_pays_nothing(tmp_path: Path):
    result = run_pytest(tmp_path, UNUSED)
    assert "1 passed" in result.stdout, result.stdout + result.stderr
