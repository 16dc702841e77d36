"""`pip install tensor-reshape` without an extra: the client and its command line."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from server_processes import ServerProcess

pytestmark = pytest.mark.timeout(900)

LIST_SERVER_PACKAGES = """
import importlib.util
import tensor_reshape.client

names = ("prometheus_client", "pythonjsonlogger")
print([name for name in names if importlib.util.find_spec(name)])
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
    return make_environment(str(wheel))


def run(*command: str | Path) -> tuple[int, str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_base_install_imports_the_client_without_server_packages(python: Path):
    assert run(python, "-I", "-c", LIST_SERVER_PACKAGES) == (0, "[]\n", "")


def test_serve_command_names_the_missing_extra_in_one_line(python: Path):
    code, stdout, stderr = run(python.with_name("tensor-reshape"), "serve")

    (line,) = stderr.splitlines()
    assert 'pip install "tensor-reshape[server]"' in line
    assert (code, stdout) == (1, "")


def test_base_install_reshapes_on_a_server_installed_elsewhere(python: Path, server: ServerProcess):
    result = run(python, "-I", "-c", ROUND_TRIP, server.address)

    assert result == (0, "float32 [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n", "")
