"""`pip install tensor-reshape`, without the extra: the client and its command line."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from server_processes import ServerProcess

pytestmark = pytest.mark.timeout(900)

IS_MISSING = """
import importlib.util, sys
sys.exit(importlib.util.find_spec(sys.argv[1]) is not None)
"""
ROUND_TRIP = """
import sys
import numpy as np
from tensor_reshape.client import Client

with Client(sys.argv[1]) as client:
    output = client.static_reshape(np.arange(6, dtype=np.float32), [2, -1], special_zero=False)
print(output.dtype, output.tolist())
"""


@pytest.fixture(scope="module")
def python(make_environment: Callable[..., Path], wheel: Path) -> Path:
    return make_environment([str(wheel)])


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_client_can_be_imported(python: Path):
    result = run(python, "-I", "-c", "import tensor_reshape.client")

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("module", ["grpc_channelz", "grpc_health", "grpc_reflection", "pythonjsonlogger"])
def test_what_only_the_server_needs_is_not_installed(python: Path, module: str):
    assert run(python, "-I", "-c", IS_MISSING, module).returncode == 0


def test_serve_says_in_one_line_what_to_install(python: Path):
    result = run(python.with_name("tensor-reshape"), "serve")

    (line,) = result.stderr.splitlines()
    assert "pip install 'tensor-reshape[server]'" in line
    assert (result.returncode, result.stdout) == (1, "")


def test_the_client_reshapes_on_a_server_installed_elsewhere(python: Path, server: ServerProcess):
    result = run(python, "-I", "-c", ROUND_TRIP, server.address)

    assert (result.stdout, result.stderr) == ("float32 [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n", "")
