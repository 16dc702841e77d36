"""Tests with protobuf 6 and another gRPC client. `scripts/verify floor` runs tests with the oldest releases."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
# All other tests use the newest protobuf. With an older one, messages must be parsed and written in the same way.
FOLDERS = ("tests/wire", "tests/e2e/test_operations.py", "tests/e2e/test_generated_stub.py")

DESCRIBE = """
import json
from importlib.metadata import version
from tensor_reshape import cli, client, rules, runtime, server, v1, wire

files = [portion.__file__ for portion in (cli, client, rules, runtime, server, v1, wire)]
print(json.dumps({"protobuf": version("protobuf"), "files": files}))
"""
# gRPC's core writes a line when a listener is closed.
QUIET = "import os; os.environ['GRPC_VERBOSITY'] = 'NONE'"
IMPORT_TRITON = "import tritonclient.grpc as triton"
IMPORT_RESHAPE = """
from tensor_reshape.client import Client
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
"""
USE_BOTH = """
import numpy as np

runner = Runner(Config(listen=("127.0.0.1:0",), drain_seconds=0))
runner.start()
(address,) = runner.addresses
data = np.arange(6, dtype=np.float32)
tensor = triton.InferInput("data", [6], "FP32")
tensor.set_data_from_numpy(data)
with triton.InferenceServerClient(address) as other, Client(address) as client:
    output = client.static_reshape(data, [2, -1], special_zero=False)
    result = other.infer("static_reshape", [tensor], parameters={"shape": "[3,-1]", "special_zero": False})
runner.stop()
print(result.as_numpy("output").tolist(), output.tolist())
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root of the repository, with one stream for all of its output."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def python(make_environment: Callable[..., Path], wheel: Path) -> Path:
    """An environment with the wheel, protobuf 6 and tritonclient."""
    packages = ("--group", "pyproject.toml:test", "tritonclient[grpc]", "protobuf<7", "grpcio>1.80")
    return make_environment(f"{wheel}[server,examples]", *packages)


def test_installed_wheel_passes_the_tests_with_protobuf_6(python: Path):
    described = json.loads(run(python, "-c", DESCRIBE).stdout)
    assert described["protobuf"].startswith("6.")
    assert [file for file in described["files"] if not Path(file).is_relative_to(python.parents[1] / "lib")] == []

    # Only the releases differ from the other tests, so a few examples are enough.
    less = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile", "few")
    result = run(python, "-m", "pytest", "-n", "2", "--dist", "loadfile", *less, *FOLDERS)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "imports", [(IMPORT_TRITON, IMPORT_RESHAPE), (IMPORT_RESHAPE, IMPORT_TRITON)], ids=["triton-first", "triton-last"]
)
def test_sdk_and_tritonclient_can_share_a_process(python: Path, imports: tuple[str, ...]):
    result = run(python, "-I", "-c", "\n".join([QUIET, *imports, USE_BOTH]))

    printed = "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n"
    assert (result.returncode, result.stdout) == (0, printed)
