"""The plugin of pytest, in sessions of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

SECONDS = 120
PASSING = """
import numpy as np
import pytest
from tensor_reshape.client import Client, UnavailableError

def test_a_server(reshape_server, reshape_client):
    assert reshape_client.infer_shape([6], [2, -1], special_zero=False) == (2, 3)
    with Client(reshape_server.address) as client:
        assert client.reshape(np.arange(6), [3, 2], special_zero=False).shape == (3, 2)

def test_the_server_is_one_for_the_session_and_the_client_is_new(reshape_server, reshape_client, request):
    assert reshape_client.check_health(timeout=20)
    assert reshape_server.process.poll() is None

def test_a_fake(fake_reshape_client):
    fake_reshape_client.fail_next()
    with pytest.raises(UnavailableError):
        fake_reshape_client.infer_shape([6], [2, -1], special_zero=False)
"""
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


def test_the_fixtures_are_there_without_a_word(tmp_path: Path):
    result = run_pytest(tmp_path, PASSING)
    assert "3 passed" in result.stdout, result.stdout + result.stderr


@pytest.mark.parametrize("name", ["reshape_server", "reshape_client", "fake_reshape_client"])
def test_each_fixture_says_what_it_is(tmp_path: Path, name: str):
    listed = run_pytest(tmp_path, UNUSED, "--fixtures").stdout
    assert f"\n{name}" in listed
    assert "no docstring available" not in listed.partition(f"\n{name}")[2][:200]


def test_whoever_does_not_use_them_pays_nothing(tmp_path: Path):
    result = run_pytest(tmp_path, UNUSED)
    assert "1 passed" in result.stdout, result.stdout + result.stderr
