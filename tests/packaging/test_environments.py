"""Tests with other releases of protobuf, and with other gRPC clients in the same environment and process.

`scripts/verify floor` runs tests with the oldest releases.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from documents import read_blocks
from server_processes import run_server
from tensor_reshape.server.oip.messages import SERVICE as INFERENCE_SERVICE
from tensor_reshape.wire.methods import SERVICE

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
TRITON_PAGE = ROOT / "docs/how-to/inference-protocol.md"
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
IMPORT_OTHERS = """
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
"""
IMPORT_RESHAPE = """
from tensor_reshape.client import Client
from tensor_reshape.server.config import Config
from tensor_reshape.server.runner import Runner
"""
USE_ALL = """
import grpc
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
with grpc.insecure_channel(address) as channel:
    health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
runner.stop()
print(result.as_numpy("output").tolist(), output.tolist(), health.status)
"""


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in the root of the repository, with one stream for all of its output."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module")
def python(make_environment: Callable[..., Path], wheel: Path) -> Path:
    """An environment with the wheel, protobuf 6 and other clients."""
    # The newest health client that works with protobuf 6.
    packages = ("--group", "pyproject.toml:test", "tritonclient[grpc]", "protobuf<7", "grpcio-health-checking<1.82")
    return make_environment(f"{wheel}[server,examples]", *packages, "grpcio-reflection<1.82", "grpcio>1.80")


def test_installed_wheel_passes_the_tests_with_protobuf_6(python: Path):
    described = json.loads(run(python, "-c", DESCRIBE).stdout)
    assert described["protobuf"].startswith("6.")
    assert [file for file in described["files"] if not Path(file).is_relative_to(python.parents[1] / "lib")] == []

    # Only the releases differ from the other tests, so a few examples are enough.
    less = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile", "few")
    result = run(python, "-m", "pytest", "-n", "2", "--dist", "loadfile", *less, *FOLDERS)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "imports", [(IMPORT_OTHERS, IMPORT_RESHAPE), (IMPORT_RESHAPE, IMPORT_OTHERS)], ids=["others-first", "others-last"]
)
def test_sdk_server_and_other_clients_can_share_a_process(python: Path, imports: tuple[str, ...]):
    result = run(python, "-I", "-c", "\n".join([QUIET, *imports, USE_ALL]))

    printed = "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] 1\n"
    assert (result.returncode, result.stdout) == (0, printed)


def pip(python: Path, *arguments: str) -> None:
    """Runs `uv pip`, which works like pip, in the environment of an interpreter."""
    subprocess.run([sys.executable, "-m", "uv", "pip", *arguments, "--quiet", "--python", python], check=True)


@pytest.fixture(scope="module")
def documented(make_environment: Callable[..., Path], wheel: Path) -> Path:
    """An environment with a server, into which the command of the page about Triton has installed its client."""
    python = make_environment(f"{wheel}[server,http,onnx]")
    (command,) = re.findall(r"`pip (install '?tritonclient\[grpc\][^`]*)`", TRITON_PAGE.read_text())
    pip(python, *shlex.split(command))
    return python


@pytest.mark.parametrize("release", ["6.33", "7.36"])
def test_server_works_in_the_documented_environment(documented: Path, release: str):
    pip(documented, "install", f"protobuf=={release}.*")
    example, *_ = read_blocks(TRITON_PAGE)
    with run_server(python=documented) as server, grpc.insecure_channel(server.address) as channel:
        shown = run(documented, "-I", "-c", example.text, server.address)
        health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (listed,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([request]))
    assert (shown.returncode, shown.stdout) == (0, "[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]\nNOT_DIVISIBLE 4\n")
    assert health.status == health_pb2.HealthCheckResponse.SERVING
    assert {SERVICE, INFERENCE_SERVICE.full_name} <= {one.name for one in listed.list_services_response.service}


def test_serve_names_packages_to_install_in_one_line(documented: Path):
    pip(documented, "install", "protobuf==5.29.*")
    pip(documented, "uninstall", "numpy")
    program = documented.with_name("tensor-reshape")
    serves = [run(program, "serve", "--workers", workers, "--listen", "127.0.0.1:0") for workers in ("1", "2")]
    (line,) = {serve.stdout for serve in serves}
    faults, _, command = line.partition(". Run pip ")
    assert [serve.returncode for serve in serves] == [1, 1]
    assert "numpy is not installed, tensor-reshape does not work with protobuf 5.29." in faults
    assert run(program, "health").stdout == line

    pip(documented, *shlex.split(command))
    assert run(program, "serve", "--check-config").stdout == "configuration is valid\n"
