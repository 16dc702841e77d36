"""Tests beside other releases of protobuf, and another gRPC client; beside the oldest releases: `scripts/floor`."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[2]
# The suite itself runs on the newest releases, so there it is enough to see that the installed wheel works; on another
# protobuf, also that messages are read and written as its classes do.
FOLDERS = {
    "protobuf-6": ("tests/wire", "tests/e2e/test_operations.py", "tests/e2e/test_generated_stub.py"),
    "protobuf-7": ("tests/e2e/test_operations.py", "tests/e2e/test_generated_stub.py"),
}
NEWEST = {
    "protobuf-6": {"protobuf": "<7", "grpcio": ">1.80"},
    "protobuf-7": {"protobuf": ">=7,<8", "grpcio": ">1.80"},
}

VERSIONS = """
import json, sys
from importlib.metadata import version

print(json.dumps({name: version(name) for name in sys.argv[1:]}))
"""
ORIGINS = """
from tensor_reshape import cli, client, rules, runtime, server, v1, wire

print(*(portion.__file__ for portion in (cli, client, rules, runtime, server, v1, wire)), sep="\\n")
"""
# gRPC's core writes a line of its own when a listener is closed.
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


@dataclass(frozen=True)
class Environment:
    """An environment that holds the wheel with its extras and the test tools.

    Attributes:
        python: its interpreter.
        promised: the versions that it was made to hold.
        folders: the tests that run in it.
    """

    python: Path
    promised: dict[str, SpecifierSet]
    folders: tuple[str, ...]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a command from the repository's root; its output is one stream, to be shown whole."""
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.fixture(scope="module", params=NEWEST)
def environment(request: pytest.FixtureRequest, make_environment: Callable[..., Path], wheel: Path) -> Environment:
    project = [f"{wheel}[server,examples]", "--group", "pyproject.toml:test"]
    promised = {name: SpecifierSet(text) for name, text in NEWEST[request.param].items()}
    python = make_environment([*project, *(f"{name}{text}" for name, text in promised.items())])
    return Environment(python, promised, FOLDERS[request.param])


def test_the_environment_holds_what_it_promises(environment: Environment):
    result = run(environment.python, "-c", VERSIONS, *environment.promised)
    assert result.returncode == 0, result.stdout

    versions: dict[str, str] = json.loads(result.stdout)
    assert {name: version for name, version in versions.items() if version not in environment.promised[name]} == {}


def test_the_code_under_test_is_the_wheels(environment: Environment):
    result = run(environment.python, "-c", ORIGINS)
    assert result.returncode == 0, result.stdout

    installed = environment.python.parents[1] / "lib"
    assert [path for path in result.stdout.splitlines() if not Path(path).is_relative_to(installed)] == []


def test_the_projects_tests_pass(environment: Environment):
    # File by file and the long ones first, as `scripts/test` has it; one process less, for others run beside these.
    order = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    # Nothing but the releases differs from the suite itself, so few examples do, and the serving that needs private
    # parts of grpcio: the other one is in `tests/server`.
    less = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile", "few", "--serving", "inline")
    result = run(environment.python, "-m", "pytest", *order, *less, *environment.folders)

    assert result.returncode == 0, result.stdout


@pytest.fixture(scope="module")
def triton_python(make_environment: Callable[..., Path], wheel: Path) -> Path:
    return make_environment([f"{wheel}[server]", "tritonclient[grpc]"])


@pytest.mark.parametrize(
    "imports",
    [
        pytest.param([IMPORT_TRITON, IMPORT_RESHAPE], id="triton-first"),
        pytest.param([IMPORT_RESHAPE, IMPORT_TRITON], id="triton-last"),
    ],
)
def test_client_and_server_share_a_process_with_tritonclient(triton_python: Path, imports: list[str]):
    result = run(triton_python, "-I", "-c", "\n".join([QUIET, *imports, USE_BOTH]))

    assert (result.returncode, result.stdout) == (
        0,
        "[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]\n",
    )
